//! A record as a line, with the properties of Kafka's `DefaultMessageFormatter`.
//!
//! ```text
//! CreateTime:1700000000000 <TAB> Partition:0 <TAB> Offset:7 <TAB> a:1,b:2 <TAB> key <TAB> value <LF>      each part on demand
//! ```

use std::io::{self, Write};

use anyhow::bail;

use crate::cli::properties::Properties;
use crate::cli::rows::{Kind, Row};

/// Which parts are written, and what stands between them.
#[derive(Clone, Debug)]
pub struct Format {
    timestamp: bool,
    partition: bool,
    offset: bool,
    headers: bool,
    key: bool,
    value: bool,
    key_separator: Vec<u8>,
    line_separator: Vec<u8>,
    headers_separator: Vec<u8>,
    null_literal: Vec<u8>,
}

impl Format {
    pub fn new(mut given: Properties) -> anyhow::Result<Format> {
        for name in ["key.deserializer", "value.deserializer", "headers.deserializer"] {
            if let Some(class) = given.take(name)
                && !class.ends_with(".StringDeserializer")
                && !class.ends_with(".ByteArrayDeserializer")
            {
                bail!("{name} {class} is a Java class, which this program cannot load: bytes are written as they are");
            }
        }
        let format = Format {
            timestamp: given.flag("print.timestamp", false),
            partition: given.flag("print.partition", false),
            offset: given.flag("print.offset", false),
            headers: given.flag("print.headers", false),
            key: given.flag("print.key", false),
            value: given.flag("print.value", true),
            key_separator: text(&mut given, "key.separator", "\t"),
            line_separator: text(&mut given, "line.separator", "\n"),
            headers_separator: text(&mut given, "headers.separator", ","),
            null_literal: text(&mut given, "null.literal", "null"),
        };
        given.warn_of_the_rest("--property");
        Ok(format)
    }

    /// `timestamp_type`: by Kafka's names, `None` for records that have no timestamp.
    pub fn write(
        &self,
        row: &Row<'_>,
        partition: i32,
        timestamp_type: Option<&str>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        // What follows a part: a separator before another part, the line's end after the last; nothing after the value's end.
        let after = |more: bool| if more { &self.key_separator } else { &self.line_separator };
        if self.timestamp {
            match timestamp_type {
                Some(kind) => write!(out, "{kind}:{}", row.timestamp)?,
                None => out.write_all(b"NO_TIMESTAMP")?,
            }
            out.write_all(after(self.partition || self.offset || self.headers || self.key || self.value))?;
        }
        if self.partition {
            write!(out, "Partition:{partition}")?;
            out.write_all(after(self.offset || self.headers || self.key || self.value))?;
        }
        if self.offset {
            write!(out, "Offset:{}", row.offset.0)?;
            out.write_all(after(self.headers || self.key || self.value))?;
        }
        if self.headers {
            self.write_headers(row, out)?;
            out.write_all(after(self.key || self.value))?;
        }
        if self.key {
            out.write_all(row.key.unwrap_or(&self.null_literal))?;
            out.write_all(after(self.value))?;
        }
        if self.value {
            out.write_all(row.value.unwrap_or(&self.null_literal))?;
            out.write_all(&self.line_separator)?;
        }
        Ok(())
    }

    fn write_headers(&self, row: &Row<'_>, out: &mut impl Write) -> io::Result<()> {
        let headers = match &row.kind {
            Kind::Record { record, .. } => Some(record.headers()),
            Kind::Message { .. } => None,
        };
        let mut none = true;
        for header in headers.into_iter().flatten() {
            if !none {
                out.write_all(&self.headers_separator)?;
            }
            none = false;
            out.write_all(header.key)?;
            out.write_all(b":")?;
            out.write_all(header.value.unwrap_or(&self.null_literal))?;
        }
        if none { out.write_all(b"NO_HEADERS") } else { Ok(()) }
    }
}

fn text(given: &mut Properties, name: &str, default: &str) -> Vec<u8> {
    given.take(name).unwrap_or_else(|| default.to_owned()).into_bytes()
}
