//! Tables as Kafka's tool prints them.

/// Each column is as wide as its widest cell, and a tab follows every one.
pub fn text(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headers[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}\t"));
        cells.collect::<String>() + "\n"
    };
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    line(&headers) + &rows.iter().map(|row| line(row)).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_and_a_tab_follows_each() {
        let rows = [vec!["a".to_owned(), "longer than it".to_owned()], vec!["wide one".to_owned(), String::new()]];
        let expected = "One     \tTwo           \t\na       \tlonger than it\t\nwide one\t              \t\n";
        assert_eq!(text(&["One", "Two"], &rows), expected);
        assert_eq!(text(&["One"], &[]), "One\t\n");
    }
}
