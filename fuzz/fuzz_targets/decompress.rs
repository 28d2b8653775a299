//! Every codec on any bytes: the first byte chooses codec and magic.
#![no_main]

use klamm::wire::compression::{Codec, Scratch, decompress};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let Ok(codec) = Codec::from_bits(*choice) else { return };
    let mut out = Vec::new();
    let _ = decompress(codec, (choice >> 3 & 1) as i8, bytes, LIMIT, &mut Scratch::default(), &mut out);
    assert!(out.len() <= LIMIT);
});
