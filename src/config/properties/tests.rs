use super::*;

fn pairs(text: &str) -> Vec<(String, String)> {
    parse_entries(text.as_bytes()).unwrap()
}

#[test]
fn a_file_with_everything_in_it() {
    let text =
        "# comment\n  ! other\n\na=1\r\nb : 2\nc 3\n  d\t=\t4 \ne=one,\\\n   two\nf\\ g\\=h=\\u00e9\\tx\\q\nlast";
    let expected =
        [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4 "), ("e", "one,two"), ("f g=h", "é\txq"), ("last", "")];
    assert_eq!(pairs(text), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
}

fn units(hex: &str) -> String {
    let units: Vec<u16> =
        hex.as_bytes().chunks(4).map(|c| u16::from_str_radix(str::from_utf8(c).unwrap(), 16).unwrap()).collect();
    String::from_utf16_lossy(&units)
}

/// What Java's own `Properties.load` made of a few hundred files, hand-written and random.
#[test]
fn reads_what_java_reads() {
    let mut lines = 0;
    for line in
        include_str!("../../../tests/fixtures/java-properties.tsv").lines().filter(|line| !line.starts_with('#'))
    {
        let (file, expected) = line.split_once('\t').unwrap();
        let bytes: Vec<u8> =
            file.as_bytes().chunks(2).map(|c| u8::from_str_radix(str::from_utf8(c).unwrap(), 16).unwrap()).collect();
        let read = parse_entries(&bytes);
        if expected == "!" {
            assert!(read.is_err(), "{bytes:?} should be refused, was {read:?}");
        } else {
            let expected: Vec<(String, String)> = expected
                .split(',')
                .filter(|pair| !pair.is_empty())
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(key, value)| (units(key), units(value)))
                .collect();
            assert_eq!(read, Ok(expected), "{:?}", String::from_utf8_lossy(&bytes));
        }
        lines += 1;
    }
    assert!(lines > 400, "{lines}");
}

proptest::proptest! {
    #[test]
    fn what_is_written_is_read_back(entries: Vec<(String, String)>, comment: String) {
        let text = write(&[&comment], entries.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        proptest::prop_assert!(text.is_ascii());
        proptest::prop_assert_eq!(parse_entries(text.as_bytes()).unwrap(), entries);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = parse_entries(&bytes);
    }
}
