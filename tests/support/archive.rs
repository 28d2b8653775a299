//! The recorded data directories, out of their archives.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;

/// Content of a `.gz`.
pub fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut content).unwrap();
    content
}

/// Files of a `.tar.gz` by their path below its root.
pub fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let tar = unzip(archive);
    let mut files = BTreeMap::new();
    let mut rest = &tar[..];
    while let Some((head, after)) = rest.split_first_chunk::<512>() {
        let text =
            |from: usize, to: usize| String::from_utf8_lossy(&head[from..to]).trim_matches(['\0', ' ']).to_owned();
        let Ok(size) = usize::from_str_radix(&text(124, 136), 8) else { break };
        let path = text(0, 100);
        files.insert(path.split_once('/').map_or(path.clone(), |(_, below)| below.to_owned()), after[..size].to_vec());
        rest = &after[size.next_multiple_of(512)..];
    }
    files
}
