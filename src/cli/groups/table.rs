//! Columns of text.

/// `text` filled up with blanks on its right; longer text stays as it is.
pub fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// The width of the longest text of a column, but at least Kafka's 15.
pub fn width<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0).max(15)
}
