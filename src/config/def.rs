//! What a configuration key is, and how its text becomes a value: the rules of Kafka's `ConfigDef`.

use std::fmt;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    Double,
    /// Separated by commas, blanks around them dropped; the empty text is the empty list.
    List,
    /// A Java class. None can be loaded here, so only the default is ever in use.
    Class,
    /// Never shown to anybody.
    Password,
}

impl Kind {
    /// `config_type` in DescribeConfigs.
    pub fn wire(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        }
    }
}

/// Which values of the kind are allowed. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    Any,
    Min(i64),
    Between(i64, i64),
    BetweenDoubles(f64, f64),
    /// -1, or between the two.
    MinusOneOr(i64, i64),
    OneOf(&'static [&'static str]),
    OneOfAnyCase(&'static [&'static str]),
    /// For lists: every element.
    EachOf(&'static [&'static str]),
    NonEmpty,
    /// Lists.
    NonEmptyList,
    /// `*`, or a list of `partition:broker`.
    ThrottledReplicas,
    /// A release a metadata or protocol version can be set to, such as `3.9` or `3.9-IV0`.
    MetadataVersion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Whether a running broker takes a new value, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only at start.
    ReadOnly,
    /// For one broker.
    PerBroker,
    /// For one broker or for all.
    ClusterWide,
}

/// What this broker makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Implemented,
    /// Accepted and shown, but there is nothing here it could change; the reason.
    NoEffect(&'static str),
    /// Accepted, shown and warned about: the feature does not exist here yet.
    NotYet,
    /// Any value but the default stops the start, because running without it would be unsafe or something else
    /// than was asked for; the reason.
    Refuses(&'static str),
}

/// One key: a row of the tables in [`super::keys`].
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// `None` is Kafka's null.
    pub default: Option<&'static str>,
    pub check: Check,
    pub importance: Importance,
    pub scope: Scope,
    pub state: State,
    /// Kafka knows it but does not list it in its documentation.
    pub internal: bool,
    pub doc: &'static str,
}

/// Starts a row; the builder methods below read as one line of a table.
macro_rules! kinds {
    ($($function:ident => $kind:ident),* $(,)?) => {$(
        pub const fn $function(name: &'static str) -> Key {
            Key::new(name, Kind::$kind)
        }
    )*};
}

kinds! {
    boolean => Boolean, string => String, int => Int, short => Short, long => Long, double => Double, list => List,
    class => Class, password => Password,
}

impl Key {
    const fn new(name: &'static str, kind: Kind) -> Key {
        Key {
            name,
            kind,
            default: None,
            check: Check::Any,
            importance: Importance::Medium,
            scope: Scope::ReadOnly,
            state: State::NotYet,
            internal: false,
            doc: "",
        }
    }
    pub const fn default(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }
    pub const fn check(self, check: Check) -> Key {
        Key { check, ..self }
    }
    pub const fn min(self, min: i64) -> Key {
        Key { check: Check::Min(min), ..self }
    }
    pub const fn between(self, min: i64, max: i64) -> Key {
        Key { check: Check::Between(min, max), ..self }
    }
    pub const fn one_of(self, allowed: &'static [&'static str]) -> Key {
        Key { check: Check::OneOf(allowed), ..self }
    }
    pub const fn each_of(self, allowed: &'static [&'static str]) -> Key {
        Key { check: Check::EachOf(allowed), ..self }
    }
    pub const fn high(self) -> Key {
        Key { importance: Importance::High, ..self }
    }
    pub const fn low(self) -> Key {
        Key { importance: Importance::Low, ..self }
    }
    pub const fn per_broker(self) -> Key {
        Key { scope: Scope::PerBroker, ..self }
    }
    pub const fn cluster_wide(self) -> Key {
        Key { scope: Scope::ClusterWide, ..self }
    }
    pub const fn internal(self) -> Key {
        Key { internal: true, ..self }
    }
    pub const fn implemented(self, doc: &'static str) -> Key {
        Key { state: State::Implemented, doc, ..self }
    }
    pub const fn not_yet(self, doc: &'static str) -> Key {
        Key { state: State::NotYet, doc, ..self }
    }
    pub const fn no_effect(self, why: &'static str, doc: &'static str) -> Key {
        Key { state: State::NoEffect(why), doc, ..self }
    }
    pub const fn refuses(self, why: &'static str, doc: &'static str) -> Key {
        Key { state: State::Refuses(why), doc, ..self }
    }

    /// Its value is never answered to anybody.
    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// The value of `text`, checked.
    pub fn parse(&self, text: &str) -> Result<Value, BadValue> {
        let text = text.trim();
        let bad = |value: String, wanted: String| BadValue { key: self.name.into(), value, wanted };
        let value = parse_kind(self.kind, text).map_err(|wanted| bad(self.shown(text), wanted))?;
        check(self.name, &self.check, &value)
            .map_err(|wanted| bad(self.shown(&culprit(&self.check, &value)), wanted))?;
        Ok(value)
    }

    /// A value as it may stand in a message.
    pub fn shown(&self, text: &str) -> String {
        if self.is_sensitive() { "[hidden]".into() } else { text.into() }
    }

    /// What a value may be, for a person.
    pub fn allowed(&self) -> String {
        match self.check {
            Check::Any | Check::NonEmpty | Check::NonEmptyList if self.kind == Kind::Boolean => "true or false".into(),
            Check::Any => String::new(),
            Check::Min(min) => format!("[{min},...]"),
            Check::Between(min, max) => format!("[{min},...,{max}]"),
            Check::BetweenDoubles(min, max) => format!("[{min},...,{max}]"),
            Check::MinusOneOr(min, max) if max == i64::from(i32::MAX) => format!("[{min},...] or -1"),
            Check::MinusOneOr(min, max) => format!("[{min},...,{max}] or -1"),
            Check::OneOf(allowed) | Check::EachOf(allowed) => format!("[{}]", allowed.join(", ")),
            Check::OneOfAnyCase(allowed) => format!("[{}] in any case", allowed.join(", ")),
            Check::NonEmpty => "not empty".into(),
            Check::NonEmptyList => "not empty".into(),
            Check::ThrottledReplicas => "* or partition:broker,...".into(),
            Check::MetadataVersion => "a release of Kafka".into(),
        }
    }
}

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Boolean(bool),
    Text(String),
    Integer(i64),
    Double(f64),
    List(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => value.fmt(f),
            Value::Text(value) => f.write_str(value),
            Value::Integer(value) => value.fmt(f),
            Value::Double(value) => f.write_str(&java_double(*value)),
            Value::List(values) => f.write_str(&values.join(",")),
        }
    }
}

/// A value its key does not allow. The text is the one Kafka's clients are used to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value {value} for configuration {key}: {wanted}")]
pub struct BadValue {
    pub key: String,
    pub value: String,
    pub wanted: String,
}

fn parse_kind(kind: Kind, text: &str) -> Result<Value, String> {
    let integer = |min: i64, max: i64| {
        let digits = text.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(text);
        match digits.parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) => Ok(Value::Integer(value)),
            _ => Err(format!("Not a number of type {}", kind.name())),
        }
    };
    match kind {
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
        Kind::Boolean => Err("Expected value to be either true or false".into()),
        Kind::String | Kind::Class | Kind::Password => Ok(Value::Text(text.into())),
        Kind::Int => integer(i32::MIN.into(), i32::MAX.into()),
        Kind::Short => integer(i16::MIN.into(), i16::MAX.into()),
        Kind::Long => integer(i64::MIN, i64::MAX),
        Kind::Double => {
            let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
            let special = digits.chars().any(|c| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E'));
            match (digits, digits.parse::<f64>()) {
                ("NaN", _) => Ok(Value::Double(f64::NAN)),
                ("Infinity" | "+Infinity", _) => Ok(Value::Double(f64::INFINITY)),
                ("-Infinity", _) => Ok(Value::Double(f64::NEG_INFINITY)),
                (_, Ok(value)) if !special => Ok(Value::Double(value)),
                _ => Err("Not a number of type DOUBLE".into()),
            }
        }
        Kind::List if text.is_empty() => Ok(Value::List(Vec::new())),
        Kind::List => Ok(Value::List(text.split(',').map(|element| element.trim().to_owned()).collect())),
    }
}

/// The part of a value that a failed check is about, as Kafka names it.
fn culprit(check: &Check, value: &Value) -> String {
    match (check, value) {
        (Check::EachOf(allowed), Value::List(list)) => {
            list.iter().find(|element| !allowed.contains(&element.as_str())).cloned().unwrap_or_default()
        }
        (_, Value::List(list)) => format!("[{}]", list.join(", ")),
        _ => value.to_string(),
    }
}

fn check(name: &str, check: &Check, value: &Value) -> Result<(), String> {
    let number_between = |value: i64, min: i64, max: i64| {
        if value < min {
            Err(format!("Value must be at least {min}"))
        } else if value > max {
            Err(format!("Value must be no more than {max}"))
        } else {
            Ok(())
        }
    };
    match (check, value) {
        (Check::Min(min), Value::Integer(value)) => number_between(*value, *min, i64::MAX),
        (Check::Between(min, max), Value::Integer(value)) => number_between(*value, *min, *max),
        (Check::BetweenDoubles(min, max), Value::Double(value)) => {
            // NaN compares with nothing and passes, as in Kafka; it is refused here because no use of it is right.
            if value.is_nan() || value < min {
                Err(format!("Value must be at least {min}"))
            } else if value > max {
                Err(format!("Value must be no more than {max}"))
            } else {
                Ok(())
            }
        }
        (Check::MinusOneOr(..), Value::Integer(-1)) => Ok(()),
        (Check::MinusOneOr(min, max), Value::Integer(value)) => number_between(*value, *min, *max)
            .map_err(|_| format!("Value must be between {min} and {max} or equal to -1")),
        (Check::OneOf(allowed), Value::Text(text)) if !allowed.contains(&text.as_str()) => {
            Err(format!("String must be one of: {}", allowed.join(", ")))
        }
        (Check::OneOfAnyCase(allowed), Value::Text(text)) if !allowed.iter().any(|a| a.eq_ignore_ascii_case(text)) => {
            Err(format!("String must be one of (case insensitive): {}", allowed.join(", ")))
        }
        (Check::EachOf(allowed), Value::List(list)) => match list.iter().find(|e| !allowed.contains(&e.as_str())) {
            Some(_) => Err(format!("String must be one of: {}", allowed.join(", "))),
            None => Ok(()),
        },
        (Check::NonEmpty, Value::Text(text)) if text.is_empty() => Err("String must be non-empty".into()),
        (Check::NonEmptyList, Value::List(list)) if list.is_empty() => Err("List must not be empty".into()),
        (Check::ThrottledReplicas, Value::List(list)) => {
            let pair = |text: &String| {
                text.split_once(':').is_some_and(|(partition, broker)| {
                    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
                    digits(partition) && digits(broker)
                })
            };
            let star = matches!(list.as_slice(), [only] if only == "*");
            if star || list.iter().all(pair) {
                Ok(())
            } else {
                Err(format!(
                    "{name} must be the literal '*' or a list of replicas in the following format: \
                     [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                ))
            }
        }
        (Check::MetadataVersion, Value::Text(text)) => {
            if super::release::is_known(text) {
                Ok(())
            } else {
                Err(format!("Version {text} is not a valid version"))
            }
        }
        _ => Ok(()),
    }
}

/// As Java's `Double.toString` writes it: `1.7976931348623157E308`, `0.5`, `3.0`.
fn java_double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let size = value.abs();
    if value == 0.0 || value.is_nan() || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => text,
    }
}
