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
