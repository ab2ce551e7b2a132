//! Splits a catalog file into what checks requests and what people read. The build script uses this same code, so tests
//! run on the same text as the functions.

/// The table that only people read.
const FOR_PEOPLE: &str = "[facts]";

/// How the line of a setting begins that only people read.
const ABOUT: &str = "about = ";

/// The part that checks requests and the facts for people, without comments and without what a setting is about. Lines
/// keep their numbers in both.
pub(crate) fn parts(text: &str) -> (String, String) {
    let (mut judged, mut facts) = (String::new(), String::new());
    let mut for_people = false;
    for line in text.lines() {
        if line.starts_with('[') {
            for_people = line.split('#').next().unwrap_or(line).trim_end() == FOR_PEOPLE;
        }
        let (this, other) = if for_people { (&mut facts, &mut judged) } else { (&mut judged, &mut facts) };
        let is_in_neither = line.starts_with('#') || line.starts_with(ABOUT);
        this.push_str(if is_in_neither { "" } else { line });
        this.push('\n');
        other.push('\n');
    }
    (judged, facts)
}
