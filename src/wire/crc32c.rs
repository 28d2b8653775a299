//! CRC-32C (Castagnoli), which record batches carry.
//!
//! The processor's own instruction takes eight bytes, each cycle another eight, and answers after three: three stretches are
//! summed side by side and then put together, as if each had known the one before. On other processors than those of
//! x86-64 the `crc32c` crate does this; there it takes four times the instructions, and tables of 8 KiB.
#![allow(unsafe_code)] // To call what the processor was found to have.

/// Of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// Of what has `crc` with `bytes` behind it.
#[inline]
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") && std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both.
        return unsafe { x86_64::append(crc, bytes) };
    }
    ::crc32c::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_xor_si128,
    };

    /// Bytes of a stretch while there are many, and when there are few.
    const LONG: usize = 1024;
    const SHORT: usize = 64;

    /// Bytes of a turn in a stretch, and those taken at once.
    const TURN: usize = 64;
    const WORD: usize = size_of::<u64>();

    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub fn append(crc: u32, bytes: &[u8]) -> u32 {
        let mut crc = u64::from(!crc);
        let (long, rest) = bytes.as_chunks::<{ 3 * LONG }>();
        for block in long {
            crc = three_stretches(crc, block, LONG, const { behind(LONG) }, const { behind(2 * LONG) });
        }
        let (short, rest) = rest.as_chunks::<{ 3 * SHORT }>();
        for block in short {
            crc = three_stretches(crc, block, SHORT, const { behind(SHORT) }, const { behind(2 * SHORT) });
        }
        let (words, rest) = rest.as_chunks::<WORD>();
        for word in words {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        }
        let mut crc = crc as u32;
        for byte in rest {
            crc = _mm_crc32_u8(crc, *byte);
        }
        !crc
    }

    /// `block` are three stretches of `len` bytes; `one` and `two` are [`behind`] it and twice it.
    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn three_stretches(crc: u64, block: &[u8], len: usize, one: u32, two: u32) -> u64 {
        let (first, rest) = block.split_at(len);
        let (second, third) = rest.split_at(len);
        let (mut a, mut b, mut c) = (crc, 0, 0);
        // Counted, not zipped: what is called through a closure is not inlined into what has more of the processor.
        let (first, second, third) = (turns(first), turns(second), turns(third));
        let count = first.len().min(second.len()).min(third.len());
        for turn in 0..count {
            for word in 0..TURN / WORD {
                a = _mm_crc32_u64(a, u64::from_le_bytes(first[turn][word]));
                b = _mm_crc32_u64(b, u64::from_le_bytes(second[turn][word]));
                c = _mm_crc32_u64(c, u64::from_le_bytes(third[turn][word]));
            }
        }
        let product = _mm_xor_si128(multiply(a as u32, two), multiply(b as u32, one));
        c ^ _mm_crc32_u64(0, _mm_cvtsi128_si64(product) as u64)
    }

    #[inline]
    fn turns(stretch: &[u8]) -> &[[[u8; WORD]; TURN / WORD]] {
        stretch.as_chunks().0.as_chunks().0
    }

    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn multiply(a: u32, b: u32) -> __m128i {
        _mm_clmulepi64_si128::<0>(_mm_cvtsi32_si128(a as i32), _mm_cvtsi32_si128(b as i32))
    }

    /// The polynomial, its lowest power in the highest bit, as everywhere here.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    /// What a sum is multiplied with for the `bytes` that come behind it: x to the number of their bits, less the 33 that
    /// the product (one bit) and its reduction by the instruction (32) bring.
    const fn behind(bytes: usize) -> u32 {
        let (mut power, mut left) = (1 << 31, 8 * bytes - 33);
        while left > 0 {
            power = if power & 1 == 0 { power >> 1 } else { power >> 1 ^ POLYNOMIAL };
            left -= 1;
        }
        power
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_everybody_calls_crc_32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn is_that_of_an_independent_implementation_at_every_length_and_place() {
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let lengths = (0..700).chain((700..7_000).step_by(61)).chain([12_288, 12_289, 19_900]);
        for length in lengths {
            let bytes = &bytes[length % 17..][..length];
            assert_eq!(crc32c(bytes), ::crc32c::crc32c(bytes), "{length} bytes");
            let (front, back) = bytes.split_at(length / 3);
            assert_eq!(append(crc32c(front), back), ::crc32c::crc32c(bytes), "{length} bytes in two");
        }
    }
}
