//! Lines of bytes, and the record in a line.
//!
//! A line ends at `\n`, `\r` or `\r\n`, as for Java's readers. With all parts switched on a line is
//! ```text
//! headers <headers.delimiter> key <key.separator> value         headers: name<headers.key.separator>value<headers.separator>…
//! ```
//! Bytes that are not UTF-8 stay as they are; Kafka's tool replaces them. Source: Kafka's `LineMessageReader`.

use anyhow::{anyhow, bail};
use memchr::{memchr2, memmem};

use crate::cli::properties::Properties;

/// Cuts chunks of any size into lines.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// The last byte was `\r`.
    after_cr: bool,
}

impl Splitter {
    /// Calls `each` with every line that ends in `chunk`.
    pub fn feed(&mut self, mut chunk: &[u8], mut each: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
                chunk = chunk.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', chunk) else {
                self.begun.extend_from_slice(chunk);
                break;
            };
            let (line, rest) = chunk.split_at(end);
            self.after_cr = rest.first() == Some(&b'\r');
            chunk = rest.get(1..).unwrap_or_default();
            if self.begun.is_empty() {
                each(line)?;
            } else {
                self.begun.extend_from_slice(line);
                each(&self.begun)?;
                self.begun.clear();
            }
        }
        Ok(())
    }

    /// The last line, when the input does not end in a line's end.
    pub fn finish(&mut self, each: impl FnOnce(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.begun.is_empty() { Ok(()) } else { each(&std::mem::take(&mut self.begun)) }
    }
}

/// A header: name, and a value or null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The parts of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    pub headers: Vec<Header<'a>>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// How lines are read.
#[derive(Clone, Debug)]
pub struct LineFormat {
    parse_key: bool,
    parse_headers: bool,
    ignore_error: bool,
    key_separator: String,
    headers_delimiter: String,
    headers_separator: String,
    headers_key_separator: String,
    null_marker: Option<String>,
}

impl LineFormat {
    /// Refuses separators that could not be told apart.
    pub fn new(mut given: Properties) -> anyhow::Result<LineFormat> {
        let mut text = |name: &str, default: &str| given.take(name).unwrap_or_else(|| default.to_owned());
        let format = LineFormat {
            key_separator: text("key.separator", "\t"),
            headers_delimiter: text("headers.delimiter", "\t"),
            headers_separator: text("headers.separator", ","),
            headers_key_separator: text("headers.key.separator", ":"),
            parse_key: given.flag("parse.key", false),
            parse_headers: given.flag("parse.headers", false),
            ignore_error: given.flag("ignore.error", false),
            null_marker: given.take("null.marker"),
        };
        given.warn_of_the_rest("--property");
        format.check()?;
        Ok(format)
    }

    fn check(&self) -> anyhow::Result<()> {
        let named = [
            ("key.separator", &self.key_separator),
            ("headers.delimiter", &self.headers_delimiter),
            ("headers.separator", &self.headers_separator),
            ("headers.key.separator", &self.headers_key_separator),
        ];
        if let Some((name, _)) = named.iter().find(|(_, text)| text.is_empty()) {
            bail!("{name} may not be empty");
        }
        let header_texts = named.get(1..).unwrap_or_default();
        for (n, (name, text)) in header_texts.iter().enumerate() {
            if let Some((other, _)) = header_texts.iter().skip(n + 1).find(|(_, other)| other == text) {
                bail!("{name} and {other} may not be equal");
            }
        }
        let marker = self.null_marker.as_ref();
        if let Some((name, _)) = named.iter().find(|(_, text)| marker == Some(*text)) {
            bail!("null.marker and {name} may not be equal");
        }
        Ok(())
    }

    /// `number` counts lines from 1, for messages.
    pub fn parse<'a>(&self, line: &'a [u8], number: u64) -> anyhow::Result<Parts<'a>> {
        let mut rest = line;
        let headers = match self.parse_headers {
            true => self.cut(&mut rest, &self.headers_delimiter, "headers delimiter", line, number)?,
            false => None,
        };
        let key = match self.parse_key {
            true => self.cut(&mut rest, &self.key_separator, "key separator", line, number)?,
            false => None,
        };
        let headers = match headers.filter(|headers| !self.is_null(headers)) {
            Some(headers) => self.headers(headers, number)?,
            None => Vec::new(),
        };
        let unless_null = |part: &&[u8]| !self.is_null(part);
        Ok(Parts { headers, key: key.filter(unless_null), value: Some(rest).filter(unless_null) })
    }

    fn is_null(&self, part: &[u8]) -> bool {
        self.null_marker.as_ref().is_some_and(|marker| marker.as_bytes() == part)
    }

    /// What stands before `separator`; nothing is cut where it is missing and errors are ignored.
    fn cut<'a>(
        &self,
        rest: &mut &'a [u8],
        separator: &str,
        name: &str,
        line: &[u8],
        number: u64,
    ) -> anyhow::Result<Option<&'a [u8]>> {
        match split(rest, separator) {
            Some((part, after)) => {
                *rest = after;
                Ok(Some(part))
            }
            None if self.ignore_error => Ok(None),
            None => Err(anyhow!("no {name} found on line number {number}: '{}'", String::from_utf8_lossy(line))),
        }
    }

    fn headers<'a>(&self, mut text: &'a [u8], number: u64) -> anyhow::Result<Vec<Header<'a>>> {
        let mut headers = Vec::new();
        loop {
            let (pair, rest) = split(text, &self.headers_separator).map_or((text, None), |(a, b)| (a, Some(b)));
            match split(pair, &self.headers_key_separator) {
                Some((name, _)) if self.is_null(name) => {
                    bail!("a header's name is the null marker on line number {number}, and names cannot be null");
                }
                Some((name, value)) => headers.push((name, Some(value).filter(|value| !self.is_null(value)))),
                None if self.ignore_error => headers.push((pair, None)),
                None => bail!(
                    "no header key separator found in pair '{}' on line number {number}",
                    String::from_utf8_lossy(pair)
                ),
            }
            match rest {
                Some(rest) => text = rest,
                None => return Ok(headers),
            }
        }
    }
}

fn split<'a>(text: &'a [u8], separator: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(text, separator.as_bytes())?;
    Some((text.get(..at)?, text.get(at + separator.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut lines = Vec::new();
        let mut keep = |line: &[u8]| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        };
        for chunk in chunks {
            splitter.feed(chunk.as_bytes(), &mut keep).unwrap();
        }
        splitter.finish(keep).unwrap();
        lines
    }

    #[test]
    fn lines_end_as_java_ends_them() {
        assert_eq!(lines(&["a\nb\rc\r\nd"]), ["a", "b", "c", "d"]);
        assert_eq!(lines(&["a\n\n\r\r\n"]), ["a", "", "", ""]);
        assert_eq!(lines(&["ab", "c\r", "\nd", "e\n"]), ["abc", "de"]);
        assert!(lines(&[""]).is_empty());
    }

    fn format(properties: &[&str]) -> anyhow::Result<LineFormat> {
        let flags: Vec<String> = properties.iter().map(|&flag| flag.to_owned()).collect();
        LineFormat::new(Properties::read(None, &flags)?)
    }

    #[test]
    fn a_line_has_headers_key_and_value() {
        let plain = format(&[]).unwrap();
        assert_eq!(plain.parse(b"k\tv", 1).unwrap(), Parts { value: Some(b"k\tv"), ..Parts::default() });
        let all = format(&["parse.key=true", "parse.headers=true", "null.marker=NIL"]).unwrap();
        let parts = all.parse(b"a:1,b:NIL,a:\tkey\tv\tw", 1).unwrap();
        assert_eq!(parts.headers, [(&b"a"[..], Some(&b"1"[..])), (b"b", None), (b"a", Some(b""))]);
        assert_eq!((parts.key, parts.value), (Some(&b"key"[..]), Some(&b"v\tw"[..])));
        assert_eq!(all.parse(b"NIL\tNIL\tNIL", 1).unwrap(), Parts::default());
    }

    #[test]
    fn a_missing_separator_is_an_error_unless_ignored() {
        let strict = format(&["parse.key=true", "key.separator=::"]).unwrap();
        let error = strict.parse(b"k:v", 7).unwrap_err().to_string();
        assert_eq!(error, "no key separator found on line number 7: 'k:v'");
        let lenient = format(&["parse.key=true", "parse.headers=true", "ignore.error=true"]).unwrap();
        assert_eq!(lenient.parse(b"v", 1).unwrap(), Parts { value: Some(b"v"), ..Parts::default() });
        assert_eq!(lenient.parse(b"h\tk\tv", 1).unwrap().headers, [(&b"h"[..], None)]);
    }

    #[test]
    fn separators_that_cannot_be_told_apart_are_refused() {
        let error = |properties: &[&str]| format(properties).unwrap_err().to_string();
        assert_eq!(error(&["headers.separator=:"]), "headers.separator and headers.key.separator may not be equal");
        assert_eq!(error(&["null.marker=\t"]), "null.marker and key.separator may not be equal");
        assert_eq!(error(&["key.separator="]), "key.separator may not be empty");
    }
}
