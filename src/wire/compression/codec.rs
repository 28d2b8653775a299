//! The codec number in a batch's attributes.

use std::fmt;

/// Bits 0 to 2 of the attributes of batches and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    /// Since magic 2 only (KIP-110).
    Zstd,
}

/// Codec numbers 5 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compression codec {0} is unknown")]
pub struct UnknownCodec(pub u8);

impl Codec {
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// Looks at the lowest three bits only.
    pub fn from_bits(attributes: u8) -> Result<Codec, UnknownCodec> {
        Ok(match attributes & 0b111 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            unknown => return Err(UnknownCodec(unknown)),
        })
    }

    pub fn bits(self) -> u8 {
        self as u8
    }

    /// As in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
