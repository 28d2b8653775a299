//! A file as memory. `unsafe` because a mapping is: the file is made by this process before it is mapped and only ever
//! read, so no byte changes and none is missing while a slice of it is out.
#![allow(unsafe_code)]

use std::fs::File;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub struct Mapped {
    start: *mut std::ffi::c_void,
    len: usize,
}

impl Mapped {
    /// The first `len` bytes of `file`, which has at least as many.
    pub fn new(file: &File, len: usize) -> std::io::Result<Mapped> {
        // SAFETY: no address is asked for, so no other mapping is touched.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Mapped { start, len })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is a readable mapping of `len` bytes until `drop`.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no slice outlives it. A failure leaves it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
