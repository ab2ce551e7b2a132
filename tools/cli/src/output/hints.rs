//! Commands that a message names. A message names a command alone, in backticks or on an indented line of its own.
//! Where it is printed, it gets the flags that lead to the same stack, so that it can be pasted as it stands.

use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// The options that say which stack a command acts on. `data` is the `--stack` of a command that takes folders only.
const FLAGS: [&str; 4] = [FOLDER, "stack", "table", "domain_table"];

const FOLDER: &str = "data";

/// How an indented command begins.
const INDENTED: &str = "  hookonce ";

/// Whether a text names a folder. The name of a deployed stack begins with a letter and has no separator, its ARN
/// begins with `arn:`.
pub(crate) fn is_folder(text: &str) -> bool {
    text.starts_with('.') || (text.contains(std::path::is_separator) && !text.starts_with("arn:"))
}

/// How a quoted one does.
const QUOTED: &str = "`hookonce ";

/// What was typed, for every message of this process.
static TYPED: OnceLock<TypedFlags> = OnceLock::new();

/// The commands, and the flags that lead to the stack that this process acts on.
#[derive(Debug)]
struct TypedFlags {
    commands: Command,
    /// By the flag's name on the command line, with its value in quotes where a shell needs them.
    flags: Vec<(String, String)>,
}

/// Keeps the flags that a person typed.
pub(crate) fn remember(commands: Command, typed: &ArgMatches) {
    // A process has one command line.
    let _ = TYPED.set(TypedFlags::of(commands, typed));
}

/// A message whose commands lead to the stack that this process acts on.
pub(crate) fn pasteable(message: String) -> String {
    match TYPED.get() {
        Some(typed) if !typed.flags.is_empty() && message.contains("hookonce ") => typed.complete(&message),
        Some(_) | None => message,
    }
}

/// A command of these words, which leads to the stack that this process acts on. `behind` is what a shell does with its
/// output.
pub(crate) fn command(words: &[&str], behind: &str) -> String {
    match TYPED.get() {
        Some(typed) => typed.whole(words, behind),
        None => words.join(" ") + behind,
    }
}

impl TypedFlags {
    fn of(commands: Command, typed: &ArgMatches) -> Self {
        let mut leaf = typed;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let typed = |name: &&str| {
            let is_typed = leaf.try_contains_id(name).is_ok_and(|has_value| has_value)
                && leaf.value_source(name) == Some(ValueSource::CommandLine);
            let value =
                if is_typed { leaf.get_raw(name)?.next()?.to_string_lossy().into_owned() } else { return None };
            let quoted = shlex::try_quote(&value).map_or_else(|_| value.clone(), Into::into);
            let long = if *name == FOLDER { "stack".to_owned() } else { name.replace('_', "-") };
            Some((format!("--{long}"), quoted))
        };
        Self { flags: FLAGS.iter().filter_map(typed).collect(), commands }
    }

    fn complete(&self, message: &str) -> String {
        let lines = message.split('\n').map(|line| match line.strip_prefix("  ") {
            Some(command) if line.starts_with(INDENTED) => format!("  {}", self.with_flags(command)),
            Some(_) | None => self.complete_quoted(line),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn complete_quoted(&self, line: &str) -> String {
        let mut whole = String::new();
        let mut rest = line;
        while let Some((before, command)) = rest.split_once(QUOTED) {
            let Some((command, after)) = command.split_once('`') else { break };
            let complete = self.with_flags(&format!("hookonce {command}"));
            whole.extend([before, "`", &complete, "`"]);
            rest = after;
        }
        whole + rest
    }

    /// The command with each flag that it takes and does not name. What a shell does with its output, and a remark in
    /// brackets, stay behind it.
    fn with_flags(&self, command: &str) -> String {
        let ends = [" > ", "  ("].into_iter().filter_map(|end| command.find(end));
        let (command, behind) = command.split_at(ends.min().unwrap_or(command.len()));
        self.whole(&command.split(' ').collect::<Vec<_>>(), behind)
    }

    fn whole(&self, words: &[&str], behind: &str) -> String {
        let mut leaf = &self.commands;
        for word in words.iter().skip(1) {
            let Some(inner) = leaf.find_subcommand(word) else { break };
            leaf = inner;
        }
        let takes = |flag: &str, value: &str| {
            let long = flag.trim_start_matches("--");
            let mut same = leaf.get_arguments().filter(|it| it.get_long() == Some(long));
            // `dev --table` is another option than that of the others.
            same.any(|it| match it.get_id().as_str() {
                FOLDER => is_folder(value.trim_matches('\'')),
                id => id.replace('_', "-") == long,
            })
        };
        let names = |flag: &str| words.iter().any(|word| word.split('=').next() == Some(flag));
        let named = leaf.get_arguments().filter(|it| it.get_long().is_some_and(|long| names(&format!("--{long}"))));
        let excluded: Vec<_> = named.flat_map(|it| leaf.get_arg_conflicts_with(it)).filter_map(Arg::get_long).collect();
        let is_excluded = |flag: &str| flag.strip_prefix("--").is_some_and(|long| excluded.contains(&long));
        let lacking =
            self.flags.iter().filter(|(flag, value)| takes(flag, value) && !names(flag) && !is_excluded(flag));
        let flags: Vec<_> = lacking.map(|(flag, value)| format!(" {flag} {value}")).collect();
        format!("{}{}{behind}", words.join(" "), flags.concat())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::Arguments;

    /// Parses a command, and returns the value of an option of it.
    fn parsed(command: &str, option: &str) -> Result<Option<String>, String> {
        let words = shlex::split(command.split(" > ").next().unwrap()).ok_or("its quotes do not match")?;
        let matches = match Arguments::command().try_get_matches_from(words) {
            Ok(matches) => matches,
            Err(help) if help.kind() == ErrorKind::DisplayHelp => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut leaf = &matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let takes_it = leaf.try_contains_id(option).is_ok();
        let values = if takes_it { leaf.get_raw(option) } else { None };
        let value = values.and_then(|mut values| values.next());
        Ok(takes_it.then(|| value.unwrap_or_default().to_string_lossy().into_owned()))
    }

    fn typed(command: &str) -> TypedFlags {
        let commands = Arguments::command();
        let typed = commands.clone().try_get_matches_from(command.split(' ')).unwrap();
        TypedFlags::of(commands, &typed)
    }

    /// The lines of a source file that are no comments, each literal on one line.
    fn without_comments(source: &str) -> String {
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code = source.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        // A line of a literal that ends in a backslash goes on without the spaces of the next one.
        let mut parts = code.split("\\\n").map(str::to_owned);
        let first = parts.next().unwrap_or_default();
        parts.fold(first, |whole, part| whole + part.trim_start())
    }

    /// The command with a word in place of what stands in braces.
    fn filled(command: &str) -> String {
        let mut whole = String::new();
        let mut rest = command;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
        {
            whole.push_str(before);
            whole.push_str(match name {
                "noun" => "endpoint",
                "name" => "worker",
                "rate" => "10",
                _ => "shop",
            });
            rest = after;
        }
        whole + rest
    }

    /// What has commands for tests only.
    const OWN: [&str; 2] = ["src/pages.rs", "output/hints.rs"];

    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                sources(&entry, found);
            } else if entry.extension().is_some_and(|it| it == "rs") && !OWN.iter().any(|own| entry.ends_with(own)) {
                let text = without_comments(&std::fs::read_to_string(&entry).unwrap());
                // What stands after it are tests.
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
                found.push((entry.display().to_string(), text));
            }
        }
    }

    /// A message about many records cannot name the key of one.
    const NAMED_ONLY: &str = "hookonce show";

    /// Every command in a message of this program: of the command line, and of what it runs.
    fn hints() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        sources(&root.join("src"), &mut files);
        sources(&root.join("../../shared"), &mut files);
        let mut hints = Vec::new();
        for (file, text) in files {
            for (begin, end) in [("`hookonce ", '`'), ("\"  hookonce ", '"'), ("\"\\n  hookonce ", '"')] {
                for rest in text.split(begin).skip(1) {
                    let command = rest.split(end).next().unwrap();
                    let command = filled(command.split("  (").next().unwrap().trim_end());
                    hints.push((file.clone(), format!("hookonce {command}")));
                }
            }
        }
        hints
    }

    #[test]
    fn every_command_that_a_message_names_can_be_pasted_as_it_stands() {
        let hints = hints();
        assert!(hints.len() > 50, "{hints:?}");
        let faults: Vec<_> = hints
            .iter()
            .filter(|(_, hint)| hint != NAMED_ONLY)
            .filter_map(|(file, hint)| Some(format!("{file}: {hint}: {}", parsed(hint, "stack").err()?)))
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn every_command_that_a_message_names_leads_to_the_stack_that_was_named() {
        let deployed = typed("hookonce list --stack inbox");
        let local = typed("hookonce list --stack ./elsewhere");
        let (mut of_a_stack, mut of_a_folder) = (0, 0);
        for (file, hint) in hints().into_iter().filter(|(_, hint)| hint != NAMED_ONLY) {
            for (connection, option, value, count) in
                [(&deployed, "stack", "inbox", &mut of_a_stack), (&local, "stack", "./elsewhere", &mut of_a_folder)]
            {
                let completed = connection.complete(&format!("`{hint}`"));
                let completed = completed.trim_matches('`');
                let leads = parsed(completed, option).unwrap_or_else(|error| panic!("{file}: {completed}: {error}"));
                let takes_it = leads.is_some();
                *count += usize::from(takes_it);
                let is_excluded = || parsed(&format!("{completed} --{option} {value}"), option).is_err();
                let leads_there = leads.as_deref() == Some(value) || hint.contains("--stack") || is_excluded();
                assert!(!takes_it || leads_there, "{file}: {completed}");
            }
        }
        assert!(of_a_stack > 20 && of_a_folder >= of_a_stack, "{of_a_stack} {of_a_folder}");
    }

    #[test]
    fn a_command_gets_the_flags_that_it_takes_and_no_other_word_changes() {
        let typed_at = |command, message: &str| typed(command).complete(message);
        assert_eq!(
            typed_at("hookonce status --stack inbox", "1 is DEAD: `hookonce list --state DEAD`, or `hookonce man DIR`"),
            "1 is DEAD: `hookonce list --state DEAD --stack inbox`, or `hookonce man DIR`"
        );
        assert_eq!(
            typed_at("hookonce show a b --stack x --table t --domain-table d", "  hookonce endpoint show shop"),
            "  hookonce endpoint show shop --stack x",
            "endpoints have no copy"
        );
        assert_eq!(
            typed_at("hookonce list --stack x --table t", "`hookonce show a b`, `hookonce stats > x`"),
            "`hookonce show a b --stack x --table t`, `hookonce stats --stack x --table t > x`"
        );
        assert_eq!(
            typed_at("hookonce list --stack inbox", "`hookonce list --stack=inbox`\n`aws x`, no `hookonce list"),
            "`hookonce list --stack=inbox`\n`aws x`, no `hookonce list"
        );
        assert_eq!(typed_at("hookonce list --stack ./x --table t", "`hookonce dev`"), "`hookonce dev --stack ./x`");
        assert_eq!(typed("hookonce list --stack .hookonce").flags.len(), 1, "what was typed");
        assert!(typed("hookonce list").flags.is_empty() && typed("hookonce dev --table a=b:S").flags.is_empty());
        assert_eq!(
            typed("hookonce console --stack inbox").whole(&["hookonce", "show", "a", "'b > c  (--stack d)'"], " > e"),
            "hookonce show a 'b > c  (--stack d)' --stack inbox > e"
        );
        let spaces = Arguments::command().try_get_matches_from(["hookonce", "list", "--stack", "./my folder"]).unwrap();
        let spaces = TypedFlags::of(Arguments::command(), &spaces);
        assert_eq!(spaces.complete("`hookonce stats`"), "`hookonce stats --stack './my folder'`");
    }
}
