//! Splits a catalog file into what checks requests and what people read. The build script uses this same code, so tests
//! run on the same text as the functions.

/// The table that only people read.
const FOR_PEOPLE: &str = "[facts]";

/// The part that checks requests and the part that people read, without comments. Lines keep their numbers in both.
pub(crate) fn parts(text: &str) -> (String, String) {
    let (mut judged, mut told) = (String::new(), String::new());
    let mut for_people = false;
    for line in text.lines() {
        if line.starts_with('[') {
            for_people = line.split('#').next().unwrap_or(line).trim_end() == FOR_PEOPLE;
        }
        let (this, other) = if for_people { (&mut told, &mut judged) } else { (&mut judged, &mut told) };
        this.push_str(if line.starts_with('#') { "" } else { line });
        this.push('\n');
        other.push('\n');
    }
    (judged, told)
}
