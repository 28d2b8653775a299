//! The pieces that codecs of blocks cut a stream into.

/// Moves bytes from the front of `bytes` to the end of `block` until that holds `size` bytes. Whether it does.
pub(super) fn fill(block: &mut Vec<u8>, size: usize, bytes: &mut &[u8]) -> bool {
    let (now, later) = bytes.split_at(bytes.len().min(size.saturating_sub(block.len())));
    block.extend_from_slice(now);
    *bytes = later;
    block.len() >= size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_at_their_size() {
        let (mut block, mut bytes) = (vec![0], &[1, 2, 3, 4, 5, 6, 7][..]);
        let mut cut = Vec::new();
        while fill(&mut block, 4, &mut bytes) {
            cut.push(std::mem::take(&mut block));
        }
        assert_eq!((cut, block), (vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]], vec![]));
    }
}
