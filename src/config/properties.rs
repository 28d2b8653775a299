//! The text format of `server.properties` and `meta.properties`: that of Java's `Properties`.
//!
//! ```text
//! # comment          ! comment
//! key=value   key:value   key value   key = value
//! key = first part, \
//!       second part           (leading blanks of a continuation line are dropped)
//! tab\tnewline\nunicode\u00e9 (\t \n \r \f \uXXXX; any other escaped character stands for itself)
//! ```
//!
//! Bytes are ISO-8859-1, as `Properties.load(InputStream)`, which Kafka uses, reads them: a file saved as UTF-8 with
//! characters above U+007F means something else to Kafka, and means the same something here. Later keys win.
//! An unpaired surrogate escape becomes U+FFFD, because Rust strings cannot hold it.

use std::collections::BTreeMap;

/// A `\u` that is not followed by four hexadecimal digits: the only text that is not a properties file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u must be followed by four hexadecimal digits")]
pub struct MalformedEscape {
    /// Counted from 1; the first line of a continued one.
    pub line: usize,
}

/// Keys and values in the order of the file, duplicates included.
pub fn parse_entries(bytes: &[u8]) -> Result<Vec<(String, String)>, MalformedEscape> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    let mut line_number = 1;
    while !rest.is_empty() {
        let first_line = line_number;
        let (line, after, lines) = logical_line(rest);
        rest = after;
        line_number += lines;
        if let Some(line) = line {
            let (key, value) = split(&line);
            let bad = |_| MalformedEscape { line: first_line };
            entries.push((unescape(key).map_err(bad)?, unescape(value).map_err(bad)?));
        }
    }
    Ok(entries)
}

/// As [`parse_entries`], the last of equal keys kept.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<String, String>, MalformedEscape> {
    Ok(parse_entries(bytes)?.into_iter().collect())
}

/// Text that [`parse`] reads back: `comments` first, then one `key=value` line each, in the order given. ASCII only.
pub fn write<'a>(comments: &[&str], entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for comment in comments {
        for line in comment.lines() {
            text.push('#');
            escape_rest(&mut text, line);
            text.push('\n');
        }
    }
    for (key, value) in entries {
        escape(&mut text, key, true);
        text.push('=');
        escape(&mut text, value, false);
        text.push('\n');
    }
    text
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|b| is_blank(**b)).count();
    bytes.get(blanks..).unwrap_or_default()
}

/// One natural line and what follows its terminator, `\r\n` being one. `None` where Java sees the end of the file: there
/// is no terminator, or a lone `\n` or `\r` as the last byte.
fn natural_line(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    (line, rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..).filter(|rest| !rest.is_empty())))
}

/// Joins continuation lines. `None` for blank lines and comments; also how many natural lines were used.
fn logical_line(bytes: &[u8]) -> (Option<Vec<u8>>, &[u8], usize) {
    let (first, mut rest) = natural_line(bytes);
    let first = skip_blanks(first);
    if first.is_empty() || matches!(first.first(), Some(b'#' | b'!')) {
        return (None, rest.unwrap_or_default(), 1);
    }
    let mut line = first.to_vec();
    let mut lines = 1;
    // An odd run of backslashes at the end escapes the line terminator.
    while line.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1 {
        line.pop();
        let Some(continued) = rest else {
            // At the end of the file the backslash is dropped, and a line of nothing else is an empty entry.
            return (Some(line), &[], lines);
        };
        if line.is_empty() {
            // Nothing to continue: the next line begins anew and may be a comment.
            return (None, continued, lines);
        }
        let (next, after) = natural_line(continued);
        line.extend_from_slice(skip_blanks(next));
        rest = after;
        lines += 1;
    }
    (Some(line), rest.unwrap_or_default(), lines)
}

/// Raw key and raw value: the key ends at the first unescaped `=`, `:` or blank.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let mut end = line.len();
    for (at, byte) in line.iter().enumerate() {
        if !escaped && (matches!(byte, b'=' | b':') || is_blank(*byte)) {
            end = at;
            break;
        }
        escaped = *byte == b'\\' && !escaped;
    }
    let (key, rest) = line.split_at(end);
    let rest = skip_blanks(rest);
    let rest = match rest.first() {
        Some(b'=' | b':') => skip_blanks(rest.get(1..).unwrap_or_default()),
        _ => rest,
    };
    (key, rest)
}

fn unescape(bytes: &[u8]) -> Result<String, ()> {
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            units.push(byte.into());
            continue;
        }
        match bytes.next() {
            Some(b'u') => {
                let mut unit = 0u16;
                for _ in 0..4 {
                    let digit = bytes.next().and_then(|b| char::from(b).to_digit(16)).ok_or(())?;
                    unit = unit << 4 | digit as u16;
                }
                units.push(unit);
            }
            Some(b't') => units.push(b'\t'.into()),
            Some(b'n') => units.push(b'\n'.into()),
            Some(b'r') => units.push(b'\r'.into()),
            Some(b'f') => units.push(0x0c),
            Some(other) => units.push(other.into()),
            None => {}
        }
    }
    Ok(String::from_utf16_lossy(&units))
}

fn escape(out: &mut String, text: &str, key: bool) {
    let lead = if key { text.len() } else { text.len() - text.trim_start_matches(' ').len() };
    for (at, character) in text.char_indices() {
        match character {
            ' ' if at < lead => out.push_str("\\ "),
            '=' | ':' | '#' | '!' => {
                out.push('\\');
                out.push(character);
            }
            _ => escape_one(out, character),
        }
    }
}

fn escape_rest(out: &mut String, text: &str) {
    for character in text.chars() {
        escape_one(out, character);
    }
}

fn escape_one(out: &mut String, character: char) {
    match character {
        '\\' => out.push_str("\\\\"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(character),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
