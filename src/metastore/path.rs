//! ZooKeeper's rules for paths, checked before a path reaches either store.

use super::Error;

/// Refuses what ZooKeeper refuses: relative paths, empty, `.` and `..` names, a trailing slash, and characters outside
/// its ranges. `sequential` allows a trailing slash, since a number follows.
pub fn validate(path: &str, sequential: bool) -> Result<(), Error> {
    let bad = || Err(Error::BadPath(path.to_owned()));
    let Some(relative) = path.strip_prefix('/') else { return bad() };
    if relative.is_empty() {
        return Ok(());
    }
    let mut names = relative.split('/').peekable();
    while let Some(name) = names.next() {
        let numbered = sequential && names.peek().is_none();
        if (name.is_empty() || name == "." || name == "..") && !numbered {
            return bad();
        }
    }
    if relative.chars().any(is_forbidden) { bad() } else { Ok(()) }
}

fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{d7ff}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

/// The parent's path and the last name; `None` for the root.
pub fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/')? {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        parts => Some(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_refuses_what_zookeeper_does() {
        for path in ["/", "/a", "/a/b", "/config/brokers/<default>", "/config/users/u%20x%2A", "/...", "/.a", "/ü"] {
            assert_eq!(validate(path, false), Ok(()), "{path}");
        }
        for path in ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b", "/a\0", "/a\u{1f}", "/\u{85}", "/\u{e000}"]
        {
            assert_eq!(validate(path, false), Err(Error::BadPath(path.into())), "{path:?}");
        }
        assert_eq!(validate("/a/", true), Ok(()));
        assert!(validate("/a//", true).is_err());
    }

    #[test]
    fn splits_at_the_last_name() {
        assert_eq!(split("/"), None);
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/a/b/c"), Some(("/a/b", "c")));
    }
}
