//! `--delete`: groups without members, with their offsets.

use kafka_protocol::messages::DeleteGroupsRequest;

use super::{Args, groups_meant, say_error};
use crate::cli::admin::{Admin, group_id};

pub fn delete(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let (mut deleted, mut refused) = (Vec::new(), Vec::new());
    for group in groups_meant(args, admin)? {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(&group)]);
        let answer =
            admin.of_group(&group, &request, |answer| answer.results.first().map_or(0, |result| result.error_code))?;
        match answer {
            Ok(_) => deleted.push(group),
            Err(code) => refused.push((group, code)),
        }
    }
    if refused.is_empty() {
        println!("Deletion of requested consumer groups ({}) was successful.", quoted(&deleted));
        return Ok(());
    }
    say_error("Deletion of some consumer groups failed:");
    for (group, code) in refused {
        println!("* Group '{group}' could not be deleted due to: {code}");
    }
    if !deleted.is_empty() {
        println!("\nThese consumer groups were deleted successfully: {}", quoted(&deleted));
    }
    Ok(())
}

fn quoted(groups: &[String]) -> String {
    format!("'{}'", groups.join("', '"))
}
