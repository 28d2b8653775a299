use super::*;
use proptest::prelude::*;

fn round_trip(codec: Codec, magic: i8, bytes: &[u8]) -> Vec<u8> {
    let packed = compress(codec, None, magic, bytes, vec![9, 9]).unwrap();
    let mut out = Vec::new();
    decompress(codec, magic, &packed[2..], DECOMPRESSED_MAX, &mut Scratch::default(), &mut out).unwrap();
    out
}

fn inflate(codec: Codec, packed: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::new();
    decompress(codec, 2, packed, limit, &mut Scratch::default(), &mut out).map(|()| out)
}

#[test]
fn large_inputs_come_back() {
    let mut bytes: Vec<u8> = (0..300_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    bytes.extend(vec![7; 500_000]);
    for codec in Codec::ALL {
        assert!(round_trip(codec, 2, &bytes) == bytes, "{codec}");
    }
    assert!(round_trip(Codec::Lz4, 0, &bytes) == bytes);
}

#[test]
fn snappy_is_framed_as_java_does() {
    let packed = compress(Codec::Snappy, None, 2, b"hello", Vec::new()).unwrap();
    assert_eq!(packed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    // Bare snappy, and two framed streams behind one another, are read as well.
    assert_eq!(inflate(Codec::Snappy, &packed[20..], 100).unwrap(), b"hello");
    let twice = [&packed[..], &packed[..]].concat();
    assert_eq!(inflate(Codec::Snappy, &twice, 100).unwrap(), b"hellohello");
}

#[test]
fn gzip_members_are_joined_and_what_follows_is_ignored() {
    let one = compress(Codec::Gzip, None, 2, b"one", Vec::new()).unwrap();
    let all = [&one[..], &one[..], b"trailing"].concat();
    assert_eq!(inflate(Codec::Gzip, &all, 100).unwrap(), b"oneone");
}

#[test]
fn lz4_header_checksum_of_magic_0_covers_the_frame_magic() {
    let right = compress(Codec::Lz4, None, 1, b"x", Vec::new()).unwrap();
    let wrong = compress(Codec::Lz4, None, 0, b"x", Vec::new()).unwrap();
    assert_eq!(right[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(wrong[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x1a]);
    assert_eq!(inflate(Codec::Lz4, &wrong, 100), Err(DecompressError::Corrupt("lz4")));
    let mut out = Vec::new();
    decompress(Codec::Lz4, 0, &right, 100, &mut Scratch::default(), &mut out).unwrap();
    assert_eq!(out, b"x");
}

#[test]
fn lz4_with_dependent_blocks_is_refused() {
    let mut packed = compress(Codec::Lz4, None, 0, b"x", Vec::new()).unwrap();
    packed[4] &= !0b0010_0000;
    let mut out = Vec::new();
    let result = decompress(Codec::Lz4, 0, &packed, 100, &mut Scratch::default(), &mut out);
    assert_eq!(result, Err(DecompressError::Corrupt("lz4")));
}

#[test]
fn the_limit_ends_a_bomb() {
    let zeros = vec![0; 3_000_000];
    for codec in Codec::ALL {
        let packed = compress(codec, None, 2, &zeros, Vec::new()).unwrap();
        assert_eq!(inflate(codec, &packed, 100_000), Err(DecompressError::Limit(100_000)), "{codec}");
        assert_eq!(inflate(codec, &packed, zeros.len()).map(|out| out.len()), Ok(zeros.len()), "{codec}");
    }
}

/// A block is the smallest unit of these formats, and may be a whole bomb.
#[test]
fn a_block_past_the_limit_is_not_made() {
    let zeros = vec![0; 4 << 20];
    let raw = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
    let framed = [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..], &(raw.len() as u32).to_be_bytes(), &raw].concat();
    let block = lz4_flex::block::compress(&zeros);
    // In blocks of 4 MiB.
    let lz4 = [&b"\x04\x22\x4d\x18\x60\x70\x73"[..], &(block.len() as u32).to_le_bytes(), &block, &[0; 4]].concat();
    for (codec, packed) in [(Codec::Snappy, raw), (Codec::Snappy, framed), (Codec::Lz4, lz4)] {
        assert_eq!(inflate(codec, &packed, zeros.len()).map(|out| out.len()), Ok(zeros.len()), "{codec}");
        let mut scratch = Scratch::default();
        let mut stream = Decompressor::new(codec, 2, &packed, 100_000, &mut scratch).unwrap();
        assert_eq!(stream.fill().map(<[u8]>::len), Err(DecompressError::Limit(100_000)), "{codec}");
        drop(stream);
        assert!(scratch.chunk.capacity() <= 200_000, "{codec}: {} bytes were made", scratch.chunk.capacity());
    }
}

#[test]
fn a_block_that_claims_more_than_it_can_hold_is_refused_before_memory_is_taken() {
    // Claims 4 GiB - 1 in 5 bytes.
    let bare = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    assert_eq!(inflate(Codec::Snappy, &bare, usize::MAX), Err(DecompressError::Corrupt("snappy")));
}

#[test]
fn a_huge_zstd_window_pays_for_its_output() {
    use std::io::Write;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 22).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&vec![0; 32 << 20]).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(zstd_frame::window(&packed), Some(128 << 20));
    assert!(matches!(inflate(Codec::Zstd, &packed, usize::MAX), Err(DecompressError::Limit(_))));

    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 22).unwrap();
    encoder.write_all(&vec![0; 4 << 20]).unwrap();
    assert_eq!(inflate(Codec::Zstd, &encoder.finish().unwrap(), usize::MAX).map(|out| out.len()), Ok(4 << 20));
}

#[test]
fn truncated_streams_are_errors() {
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd, Codec::Snappy] {
        let packed = compress(codec, None, 2, &[5; 1000], Vec::new()).unwrap();
        // Nothing at all is an empty zstd stream.
        for cut in [usize::from(codec == Codec::Zstd), 1, packed.len() / 2, packed.len() - 1] {
            assert!(inflate(codec, &packed[..cut], usize::MAX).is_err(), "{codec} cut to {cut}");
        }
    }
}

#[test]
fn a_scratch_survives_a_stream_that_broke() {
    let mut scratch = Scratch::default();
    let mut out = Vec::new();
    let packed = compress(Codec::Zstd, None, 2, b"good", Vec::new()).unwrap();
    for _ in 0..2 {
        assert!(decompress(Codec::Zstd, 2, &packed[..packed.len() - 2], 100, &mut scratch, &mut out).is_err());
        decompress(Codec::Zstd, 2, &packed, 100, &mut scratch, &mut out).unwrap();
        assert_eq!(out, b"good");
    }
}

proptest! {
    #[test]
    fn anything_comes_back(bytes: Vec<u8>, codec in 0u8..5) {
        let codec = Codec::from_bits(codec).unwrap();
        if codec != Codec::Snappy || !bytes.is_empty() {
            prop_assert_eq!(round_trip(codec, 2, &bytes), bytes);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, codec in 0u8..5, magic in 0i8..3) {
        let codec = Codec::from_bits(codec).unwrap();
        let mut out = Vec::new();
        let _ = decompress(codec, magic, &bytes, 1 << 20, &mut Scratch::default(), &mut out);
        prop_assert!(out.len() <= 1 << 20);
    }

    #[test]
    fn damaged_streams_never_panic(codec in 1u8..5, at: prop::sample::Index, to: u8, fill in 0usize..5000) {
        let codec = Codec::from_bits(codec).unwrap();
        let mut packed = compress(codec, None, 2, &vec![to; fill], Vec::new()).unwrap();
        let at = at.index(packed.len());
        packed[at] ^= to | 1;
        let _ = inflate(codec, &packed, 1 << 20);
    }
}

#[test]
fn one_large_block_leaves_no_memory_behind() {
    let plain = vec![5; 6 << 20];
    let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    let mut scratch = Scratch::default();
    let mut out = Vec::new();
    decompress(Codec::Snappy, 2, &raw, DECOMPRESSED_MAX, &mut scratch, &mut out).unwrap();
    assert!(out == plain);
    assert_eq!(scratch.chunk.capacity(), 0);
}

#[test]
fn a_bare_snappy_block_may_not_hold_more_than_its_bytes_allow() {
    // Zeros become 21 times as large: more than 16 times, once the 8 MiB that are free do not cover the difference.
    let raw = snap::raw::Encoder::new().compress_vec(&vec![0; 48 << 20]).unwrap();
    let bound = held_bytes_max(raw.len());
    assert!(48 << 20 > bound);
    assert_eq!(inflate(Codec::Snappy, &raw, DECOMPRESSED_MAX), Err(DecompressError::Limit(bound)));
}
