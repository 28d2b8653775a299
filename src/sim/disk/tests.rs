use super::*;
use crate::clock::ManualClock;
use crate::storage::disk::{Disk, DiskFile, Open};

fn disk() -> SimDisk {
    SimDisk::new(Arc::new(ManualClock::at(0)))
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(Path::new(path), Open::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path), Open::Read).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

#[test]
fn a_name_and_its_bytes_are_forgotten_separately() {
    let disk = disk();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    write(&disk, "/d/named", b"x");
    disk.sync_dir(Path::new("/d")).unwrap();
    write(&disk, "/d/synced", b"y").sync().unwrap();
    let both = write(&disk, "/d/both", b"old");
    both.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    both.write_all_at(b"new", 0).unwrap();
    disk.remove_file(Path::new("/d/synced")).unwrap();
    disk.crash(Keep::Nothing);
    assert_eq!(content(&disk, "/d/named"), Some(vec![]));
    assert_eq!(content(&disk, "/d/synced"), Some(b"y".to_vec()), "the removal was not synced");
    assert_eq!(content(&disk, "/d/both"), Some(b"old".to_vec()));
    assert!(both.len().is_err(), "a file from before the crash is dead");
}

#[test]
fn a_failed_fsync_does_not_succeed_the_second_time() {
    let disk = disk();
    let file = write(&disk, "/f", b"abc");
    disk.sync_dir(Path::new("/")).unwrap();
    disk.fail_next(Fault::SyncError, "/f");
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(content(&disk, "/f"), Some(b"abc".to_vec()));
    disk.crash(Keep::Nothing);
    assert_eq!(content(&disk, "/f"), Some(vec![]));
}

#[test]
fn locks_do_not_outlive_their_holder_or_a_crash() {
    let disk = disk();
    let held = disk.lock(Path::new("/.lock")).unwrap();
    assert!(disk.lock(Path::new("/.lock")).is_err());
    disk.crash(Keep::Everything);
    let again = disk.lock(Path::new("/.lock")).unwrap();
    drop(held);
    assert!(disk.lock(Path::new("/.lock")).is_err(), "the old holder does not free the new one's");
    drop(again);
    assert!(disk.lock(Path::new("/.lock")).is_ok());
}
