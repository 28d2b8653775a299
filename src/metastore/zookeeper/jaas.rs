//! The login to ZooKeeper, as it stands in a JAAS file: the section `Client` with ZooKeeper's `DigestLoginModule`.
//!
//! ```text
//! Client {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     username="kafka"
//!     password="kafka-secret";
//! };
//! ```
//!
//! The grammar is that of Java's `javax.security.auth.login.Configuration`: names, `=`, quoted values, comments of both
//! kinds. `${property}` is not replaced, and refused.

use std::fmt;

/// The module that logs in by user name and password (SASL DIGEST-MD5).
const DIGEST: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

/// A user of ZooKeeper.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// The login of `section` in the JAAS file `text`; `None` without that section, when Kafka does not log in either.
    /// The error says what is wrong with the file, without its passwords.
    pub fn from_jaas(text: &str, section: &str) -> Result<Option<Login>, String> {
        let mut tokens = Tokens { rest: text };
        let mut found = None;
        while let Some(name) = tokens.next()? {
            let modules = modules(&mut tokens, &name.word()?)?;
            if matches!(&name, Token::Word(name) if name == section) {
                found = Some(modules);
            }
        }
        let Some(modules) = found else { return Ok(None) };
        let Some(module) = modules.iter().find(|module| module.class == DIGEST) else {
            let others: Vec<&str> = modules.iter().map(|module| module.class.as_str()).collect();
            return Err(format!("section {section} has {}, and only {DIGEST} is served", others.join(", ")));
        };
        let option = |wanted: &str| {
            let of_name = module.options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            of_name.ok_or_else(|| format!("section {section} has no {wanted}"))
        };
        Ok(Some(Login { user: option("username")?, password: option("password")? }))
    }
}

#[derive(Debug)]
struct Module {
    class: String,
    options: Vec<(String, String)>,
}

/// What stands behind a section's name, its closing `};` included.
fn modules(tokens: &mut Tokens<'_>, section: &str) -> Result<Vec<Module>, String> {
    let cut_off = || format!("section {section} is not closed");
    tokens.expect('{', section)?;
    let mut modules = Vec::new();
    loop {
        let class = match tokens.next()?.ok_or_else(cut_off)? {
            Token::Mark('}') => break,
            other => other.word()?,
        };
        // `required` and the like: there is one module to choose.
        tokens.next()?.ok_or_else(cut_off)?.word()?;
        let mut options = Vec::new();
        loop {
            let name = match tokens.next()?.ok_or_else(cut_off)? {
                Token::Mark(';') => break,
                other => other.word()?,
            };
            tokens.expect('=', section)?;
            let value = tokens.next()?.ok_or_else(cut_off)?.word()?;
            if value.contains("${") {
                return Err(format!("section {section}: properties are not replaced, and {name} has one"));
            }
            options.push((name, value));
        }
        modules.push(Module { class, options });
    }
    tokens.expect(';', section)?;
    Ok(modules)
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Mark(char),
    /// With or without quotes.
    Word(String),
}

impl Token {
    fn word(&self) -> Result<String, String> {
        match self {
            Token::Word(word) => Ok(word.clone()),
            Token::Mark(mark) => Err(format!("{mark:?} stands where a name or value must")),
        }
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

impl Tokens<'_> {
    fn next(&mut self) -> Result<Option<Token>, String> {
        self.skip_blanks();
        let mut chars = self.rest.chars();
        match chars.next() {
            None => Ok(None),
            Some(mark @ ('{' | '}' | ';' | '=')) => {
                self.rest = chars.as_str();
                Ok(Some(Token::Mark(mark)))
            }
            Some(quote @ ('"' | '\'')) => self.quoted(quote).map(|word| Some(Token::Word(word))),
            Some(_) => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '=' | '"' | '\'');
                let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
                self.rest = rest;
                Ok(Some(Token::Word(word.to_owned())))
            }
        }
    }

    fn expect(&mut self, mark: char, section: &str) -> Result<(), String> {
        match self.next()? {
            Some(Token::Mark(found)) if found == mark => Ok(()),
            _ => Err(format!("section {section} lacks a {mark:?}")),
        }
    }

    /// Blanks and comments. One that is not closed reaches to the end.
    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = match self.rest.get(..2) {
                Some("//") => "\n",
                Some("/*") => "*/",
                _ => return,
            };
            self.rest = self.rest.split_once(end).map_or("", |(_, rest)| rest);
        }
    }

    /// A backslash takes the next character as it is.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let (mut word, mut chars) = (String::new(), self.rest.chars());
        chars.next();
        while let Some(c) = chars.next() {
            match c {
                '\\' => word.extend(chars.next()),
                c if c == quote => {
                    self.rest = chars.as_str();
                    return Ok(word);
                }
                c => word.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str) -> Result<Option<Login>, String> {
        Ok(Some(Login { user: user.to_owned(), password: password.to_owned() }))
    }

    #[test]
    fn the_login_of_a_section_is_found_among_others() {
        let text = r#"
            // As in Kafka's documentation.
            KafkaServer {
                org.apache.kafka.common.security.scram.ScramLoginModule required
                username="admin" password="not this one";
            };
            /* ZooKeeper's { } */
            Client {
                org.apache.zookeeper.server.auth.DigestLoginModule required
                username="kafka"
                password="a \"secret\"; // with {marks}";
            };
            Other{org.apache.zookeeper.server.auth.DigestLoginModule sufficient username=bob password='x=y';};"#;
        assert_eq!(Login::from_jaas(text, "Client"), login("kafka", r#"a "secret"; // with {marks}"#));
        assert_eq!(Login::from_jaas(text, "Other"), login("bob", "x=y"));
        assert_eq!(Login::from_jaas(text, "client"), Ok(None));
        assert_eq!(Login::from_jaas("", "Client"), Ok(None));
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_in_words_and_tells_no_password() {
        let digest = |rest: &str| format!("Client {{ {DIGEST} required {rest}");
        for (text, words) in [
            ("Client { com.sun.security.auth.module.Krb5LoginModule required; };".to_owned(), "Krb5LoginModule"),
            (digest("password=\"geheim\"; };"), "no username"),
            (digest("username=\"kafka\"; };"), "no password"),
            (digest("username=\"kafka\" password=\"geheim\"; }"), "lacks a ';'"),
            (digest("username=\"kafka\" password=\"geheim\";"), "not closed"),
            (digest("username=\"kafka\" password=\"geheim; };"), "quote"),
            (digest("username \"kafka\" password=\"geheim\"; };"), "lacks a '='"),
            (digest("username=kafka password=\"${geheim}\"; };"), "password"),
            ("Client".to_owned(), "lacks a '{'"),
            ("{ };".to_owned(), "name"),
            ("Client { };".to_owned(), "only"),
        ] {
            let why = Login::from_jaas(&text, "Client").expect_err(&text);
            assert!(why.contains(words) && !why.contains("geheim"), "{text}: {why}");
        }
        let shown = format!("{:?}", Login { user: "kafka".to_owned(), password: "geheim".to_owned() });
        assert!(!shown.contains("geheim"), "{shown}");
    }
}
