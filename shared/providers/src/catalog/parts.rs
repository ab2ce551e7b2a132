//! A catalog file has two readers: who judges requests, and people. The build script parts its text with this very file,
//! so tests judge by the text that functions carry.

/// The tables that only people read.
const FOR_PEOPLE: [&str; 2] = ["[facts]", "[[setting]]"];

/// What requests are judged by, and what people read, without comments. A line keeps its number in either.
pub(crate) fn parts(text: &str) -> (String, String) {
    let (mut judged, mut told) = (String::new(), String::new());
    let mut for_people = false;
    for line in text.lines() {
        if line.starts_with('[') {
            for_people = FOR_PEOPLE.contains(&line.split('#').next().unwrap_or(line).trim_end());
        }
        let (this, other) = if for_people { (&mut told, &mut judged) } else { (&mut judged, &mut told) };
        this.push_str(if line.starts_with('#') { "" } else { line });
        this.push('\n');
        other.push('\n');
    }
    (judged, told)
}
