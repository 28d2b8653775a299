//! Every codec on any bytes: the first byte chooses codec and magic. What comes out is compressed and must come out again.
#![no_main]

use klamm::wire::compression::{Codec, Scratch, compress, decompress};
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

/// Bytes that may come out.
const LIMIT: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let Ok(codec) = Codec::from_bits(*choice) else { return };
    let magic = (choice >> 3 & 1) as i8;
    let plain = bounded(bytes.len(), || {
        let mut out = Vec::new();
        let result = decompress(codec, magic, bytes, LIMIT, &mut Scratch::default(), &mut out);
        assert!(out.len() <= LIMIT);
        result.map(|()| out)
    });
    let Ok(plain) = plain else { return };
    let compressed = compress(codec, None, magic, &plain, Vec::new()).expect("compressed");
    let mut again = Vec::new();
    decompress(codec, magic, &compressed, LIMIT, &mut Scratch::default(), &mut again)
        .expect("what was compressed here");
    assert!(again == plain, "{codec:?} gives other bytes back");
});
