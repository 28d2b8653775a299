//! Message sets of magic 0 and 1, and their conversion down.
#![no_main]

use klamm::types::Offset;
use klamm::wire::batch::Batches;
use klamm::wire::compression::Scratch;
use klamm::wire::convert::DownConversion;
use klamm::wire::legacy::InnerMessages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut scratch = Scratch::default();
    for raw in Batches::new(bytes).flatten() {
        let Ok(message) = raw.message() else { continue };
        let Ok(mut inner) = InnerMessages::new(message, &mut scratch) else { continue };
        while let Ok(Some(_)) = inner.next_message() {}
    }
    for magic in [0, 1] {
        let mut out = Vec::new();
        let mut conversion = DownConversion::new(bytes, magic, Offset(1));
        while let Ok(true) = conversion.convert_next(&mut out, &mut scratch) {}
    }
});
