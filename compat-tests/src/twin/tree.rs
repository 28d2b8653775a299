//! A decoded response as a tree of named fields, so that two of them can be compared path by path.
//!
//! The tree is read from the response's `Debug` form: derived `Debug` names every field of every message, which spares a
//! second description of the protocol.

use std::fmt::{self, Debug};

use anyhow::{Result, bail};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    /// `None`.
    Null,
    /// Numbers, booleans, uuids.
    Word(String),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Tree>),
    Fields(Vec<(String, Tree)>),
}

impl Tree {
    pub fn of(value: &impl Debug) -> Result<Tree> {
        let text = format!("{value:?}");
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.value()
    }

    pub fn field(&self, name: &str) -> Option<&Tree> {
        match self {
            Tree::Fields(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }

    #[cfg(test)]
    pub fn number(&self) -> Option<i64> {
        match self {
            Tree::Word(word) => word.parse().ok(),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Null => f.write_str("null"),
            Tree::Word(word) => f.write_str(word),
            Tree::Text(text) => write!(f, "{text:?}"),
            Tree::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Tree::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Tree::Fields(fields) => {
                f.write_str("{")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while self.peek() == b' ' {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.peek() == byte;
        self.at += usize::from(there);
        there
    }

    fn word(&mut self) -> String {
        self.space();
        let start = self.at;
        while !matches!(self.peek(), 0 | b' ' | b',' | b':' | b'(' | b')' | b'[' | b']' | b'{' | b'}') {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn value(&mut self) -> Result<Tree> {
        self.space();
        match self.peek() {
            b'"' => Ok(Tree::Text(String::from_utf8_lossy(&self.quoted()?).into_owned())),
            b'b' if self.text.get(self.at + 1) == Some(&b'"') => {
                self.at += 1;
                Ok(Tree::Bytes(self.quoted()?))
            }
            b'[' => {
                self.at += 1;
                Ok(Tree::List(self.items(b']')?))
            }
            b'{' => self.fields(),
            _ => {
                let word = self.word();
                match self.peek() {
                    b'(' => {
                        self.at += 1;
                        let mut items = self.items(b')')?;
                        Ok(if items.len() == 1 { items.remove(0) } else { Tree::List(items) })
                    }
                    b' ' if self.text.get(self.at + 1) == Some(&b'{') => self.fields(),
                    _ if word == "None" => Ok(Tree::Null),
                    _ if word.is_empty() => bail!("nothing readable at {}", self.at),
                    _ => Ok(Tree::Word(word)),
                }
            }
        }
    }

    fn items(&mut self, end: u8) -> Result<Vec<Tree>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.value()?);
            self.eat(b',');
        }
        Ok(items)
    }

    fn fields(&mut self) -> Result<Tree> {
        let mut fields = Vec::new();
        self.eat(b'{');
        while !self.eat(b'}') {
            let name = self.word();
            if !self.eat(b':') {
                bail!("no colon after {name}");
            }
            fields.push((name, self.value()?));
            self.eat(b',');
        }
        Ok(Tree::Fields(fields))
    }

    /// A string with Rust's escapes.
    fn quoted(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            let byte = self.peek();
            self.at += 1;
            match byte {
                b'"' => return Ok(bytes),
                0 if self.at > self.text.len() => bail!("a string without an end"),
                b'\\' => {
                    let escaped = self.peek();
                    self.at += 1;
                    match escaped {
                        b'n' => bytes.push(b'\n'),
                        b'r' => bytes.push(b'\r'),
                        b't' => bytes.push(b'\t'),
                        b'0' => bytes.push(0),
                        b'x' => {
                            let hex = self.text.get(self.at..self.at + 2).unwrap_or_default();
                            bytes.push(u8::from_str_radix(std::str::from_utf8(hex)?, 16)?);
                            self.at += 2;
                        }
                        b'u' => {
                            self.at += 1;
                            let end = self.text[self.at..].iter().position(|&b| b == b'}').unwrap_or(0);
                            let hex = std::str::from_utf8(&self.text[self.at..self.at + end])?;
                            let character = char::from_u32(u32::from_str_radix(hex, 16)?).unwrap_or('?');
                            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            self.at += end + 1;
                        }
                        other => bytes.push(other),
                    }
                }
                other => bytes.push(other),
            }
        }
    }
}

/// Where two trees differ: path with indices, first tree's part, second tree's part.
pub fn differences(first: &Tree, second: &Tree) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    walk("", first, second, &mut found);
    found
}

fn walk(path: &str, first: &Tree, second: &Tree, found: &mut Vec<(String, String, String)>) {
    match (first, second) {
        (Tree::Fields(a), Tree::Fields(b)) if a.iter().map(|f| &f.0).eq(b.iter().map(|f| &f.0)) => {
            for ((name, x), (_, y)) in a.iter().zip(b) {
                let dot = if path.is_empty() { "" } else { "." };
                walk(&format!("{path}{dot}{name}"), x, y, found);
            }
        }
        (Tree::List(a), Tree::List(b)) => {
            if a.len() != b.len() {
                found.push((format!("{path}.length"), first.to_string(), second.to_string()));
            }
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                // Named things are easier to find by name than by position.
                let name = ["name", "config_name", "topic", "synonym_name"].iter().find_map(|key| x.field(key)?.text());
                let index = name.filter(|name| !name.is_empty()).map_or_else(|| i.to_string(), str::to_owned);
                walk(&format!("{path}[{index}]"), x, y, found);
            }
        }
        _ if first == second => {}
        _ => found.push((path.to_owned(), first.to_string(), second.to_string())),
    }
}

/// `a[3].b[x]` without what stands in the brackets.
pub fn without_indices(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for character in path.chars() {
        inside &= character != ']';
        if !inside {
            out.push(character);
        }
        inside |= character == '[';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_forms_are_read_whole() {
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Inner(i32);
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Outer {
            a: Option<&'static str>,
            b: Vec<Inner>,
            c: bytes::Bytes,
            d: std::collections::BTreeMap<i32, i32>,
        }
        let outer =
            Outer { a: Some("x\"}\u{7f}"), b: vec![Inner(-1)], c: b"\x00\"\xff"[..].into(), d: [(1, 2)].into() };
        let tree = Tree::of(&Some(outer)).unwrap();
        assert_eq!(tree.field("a"), Some(&Tree::Text("x\"}\u{7f}".into())));
        assert_eq!(tree.field("b"), Some(&Tree::List(vec![Tree::Word("-1".into())])));
        assert_eq!(tree.field("c"), Some(&Tree::Bytes(vec![0, b'"', 0xff])));
        assert_eq!(tree.field("d").unwrap().field("1").unwrap().number(), Some(2));
    }

    #[test]
    fn a_difference_is_named_by_its_path() {
        let tree = |code: &str| {
            let topic =
                Tree::Fields(vec![("name".into(), Tree::Text("t".into())), ("code".into(), Tree::Word(code.into()))]);
            Tree::Fields(vec![("topics".into(), Tree::List(vec![topic]))])
        };
        let found = differences(&tree("0"), &tree("3"));
        assert_eq!(found, [("topics[t].code".to_owned(), "0".to_owned(), "3".to_owned())]);
        assert_eq!(without_indices(&found[0].0), "topics[].code");
    }
}
