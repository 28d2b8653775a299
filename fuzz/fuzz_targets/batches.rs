//! Batches of any magic, cut and read by both readers, which must agree on uncompressed records.
#![no_main]

use klamm::wire::batch::{Batches, ControlRecord, RecordStream};
use klamm::wire::compression::{Decompressor, Scratch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for raw in Batches::new(bytes).flatten() {
        let _ = raw.crc_matches();
        let Ok(batch) = raw.v2() else { continue };
        let header = batch.header;
        let _ = (header.next_offset(), header.last_sequence());
        for record in batch.records().flatten() {
            let _ = (record.offset(&header), record.timestamp(&header), record.headers().count());
            let _ = ControlRecord::parse(&record);
        }
        let Ok(codec) = header.codec() else { continue };
        let mut scratch = Scratch::default();
        let Ok(source) = Decompressor::new(codec, 2, batch.payload(), 1 << 20, &mut scratch) else { continue };
        let Ok(mut stream) = RecordStream::new(&header, source) else { continue };
        let streamed = loop {
            match stream.next_head() {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if header.codec_bits() == 0 && batch.payload().len() < 1 << 20 {
            assert_eq!(streamed, batch.check_records().is_ok());
        }
    }
});
