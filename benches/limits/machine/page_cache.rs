//! Writes to files and reads of them that stay in the page cache.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{MIB, disk, rate, rate_line};

pub fn lines(dir: &Path) -> std::io::Result<Vec<String>> {
    let path = dir.join("pages");
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
    let block = vec![0x5au8; MIB];
    let writes = || {
        let mut at = 0;
        rate(512, || {
            file.write_all_at(&block, at)?;
            at += MIB as u64;
            Ok(())
        })
    };
    let (fresh, again) = (writes()?, writes()?);
    let recovery = disk::read_and_check(&path)?;
    std::fs::remove_file(&path)?;
    Ok(vec![
        rate_line("page-cache write, fresh file", fresh),
        rate_line("page-cache write, overwrite", again),
        rate_line("recovery: pread 1 MiB + CRC-32C, cached", (1.0 / recovery, recovery)),
    ])
}
