//! One vocabulary: a type's name is found once in its crate, and names that are not established terms do not come back.

use std::{collections::BTreeMap, fs};

use super::source::{shipped_files, tokens};

/// Type names that several modules of a crate may have: their path says whose they are.
const MAY_REPEAT: [&str; 2] = ["Error", "Builder"];

/// Names that are refused, and what the trade calls them.
const REFUSED_NAMES: [(&str, &str); 23] = [
    ("Answer", "name what is answered: `ModelReply`"),
    ("Company", "`Concurrency`"),
    ("Found", "name what is found: `ToolLookup`"),
    ("Held", "name what is held: `ScreenLock`"),
    ("LAST_WORDS", "`SHUTDOWN_GRACE`"),
    ("Leave", "`ToolPermission`"),
    ("Manager", "name what it does"),
    ("Means", "`ToolDeps`, `IsolationSupport`"),
    ("PATIENCE", "`TIMEOUT`"),
    ("Room", "`QuotaState`, `ResultBudget`"),
    ("SETTLING", "`REFRESH_DELAY`"),
    ("Said", "name what is said: `ModelReply`"),
    ("Scene", "`CommandContext`"),
    ("Telling", "`EventWriter`"),
    ("Visitor", "`Caller`"),
    ("carry_out", "`execute`"),
    ("common", "name the subject"),
    ("has_run_out", "`is_expired`"),
    ("helpers", "name the subject"),
    ("see_to", "name what is done: `retry_until_stored`"),
    ("sentry", "`watchdog`"),
    ("take_in", "`ingest`"),
    ("utils", "name the subject"),
];

/// Words that no type name has, whatever stands beside them.
const REFUSED_WORDS: [(&str, &str); 27] = [
    ("Asked", "name what is asked for: `ApprovalRequest`"),
    ("Ceiling", "`AgentPolicy`"),
    ("Desk", "`Fixture`"),
    ("Errand", "`RunInput`, `JobRun`"),
    ("Helper", "name what it does"),
    ("Inquiries", "`ServerRequestHandler`"),
    ("Keeper", "`Recorder`"),
    ("Kept", "name what is kept: `IdleConnection`"),
    ("Landmarks", "`ProtectedPaths`"),
    ("News", "`Changes`"),
    ("Patience", "`Timeouts`"),
    ("Place", "name what is there: `InputSource`"),
    ("Places", "`Positions`"),
    ("Plays", "`ServerBehavior`"),
    ("Seat", "`AgentSlot`, `SessionSlot`"),
    ("Shown", "`RunView`"),
    ("Somebody", "`Client`"),
    ("Standing", "`EffectivePolicy`"),
    ("Surroundings", "`HostContext`, `LaunchEnv`"),
    ("Taken", "`Accepted`"),
    ("Tally", "`TurnUsage`"),
    ("Together", "`Batch`"),
    ("Trouble", "name the error"),
    ("Troubled", "`WithConditions`"),
    ("Utils", "name what it does"),
    ("Way", "`Method`"),
    ("Went", "`Outcome`"),
];

/// Kinds of items that have a name of their own.
const TYPES: [&str; 5] = ["enum", "struct", "trait", "type", "union"];
const OTHER_ITEMS: [&str; 4] = ["const", "fn", "mod", "static"];

#[test]
fn a_type_name_is_unique_in_its_crate() {
    let mut doubled = Vec::new();
    for (name, directory) in super::crates() {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in shipped_files(&directory.join("src")) {
            let relative = file.strip_prefix(&directory).unwrap().display().to_string();
            let tokens = tokens(&fs::read_to_string(&file).unwrap());
            let mut depth = 0_usize;
            for (at, token) in tokens.iter().enumerate() {
                match token.text.as_str() {
                    "{" => depth += 1,
                    "}" => depth = depth.saturating_sub(1),
                    kind if TYPES.contains(&kind) && depth == 0 && tokens[at + 1].is_name() => {
                        let place = format!("{relative}:{}", token.line);
                        places
                            .entry(tokens[at + 1].text.clone())
                            .or_default()
                            .push(place);
                    }
                    _ => {}
                }
            }
        }
        for (item, places) in places {
            if places.len() > 1 && !MAY_REPEAT.contains(&item.as_str()) {
                doubled.push(format!("{name}: `{item}` in {}", places.join(", ")));
            }
        }
    }
    assert!(doubled.is_empty(), "{}", doubled.join("\n"));
}

#[test]
fn refused_names_do_not_come_back() {
    let mut refused = Vec::new();
    for (_, directory) in super::crates() {
        for file in shipped_files(&directory.join("src")) {
            let tokens = tokens(&fs::read_to_string(&file).unwrap());
            for pair in tokens.windows(2) {
                let (kind, name) = (pair[0].text.as_str(), pair[1].text.as_str());
                let is_definition = TYPES.contains(&kind) || OTHER_ITEMS.contains(&kind);
                if let Some(instead) = find_better_name(kind, name).filter(|_| is_definition) {
                    let place = format!("{}:{}", file.display(), pair[1].line);
                    refused.push(format!("{place}: `{name}`: {instead}"));
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// What the trade calls it, if the name of this kind of item is refused.
fn find_better_name(kind: &str, name: &str) -> Option<&'static str> {
    let find = |list: &[(&str, &'static str)], word: &str| {
        let known = list.iter().find(|(refused, _)| *refused == word);
        known.map(|(_, instead)| *instead)
    };
    let of_a_word = || {
        let mut words = words_of_type(name);
        words.find_map(|word| find(&REFUSED_WORDS, word))
    };
    find(&REFUSED_NAMES, name).or_else(|| TYPES.contains(&kind).then(of_a_word).flatten())
}

/// `Open`, `Question` and `Guard` of `OpenQuestionGuard`.
fn words_of_type(name: &str) -> impl Iterator<Item = &str> {
    let starts = name
        .char_indices()
        .filter(|(_, letter)| letter.is_uppercase())
        .map(|(at, _)| at);
    let ends = starts.clone().skip(1).chain([name.len()]);
    starts.zip(ends).map(|(start, end)| &name[start..end])
}

#[test]
fn a_refused_word_is_found_within_a_type_name() {
    assert_eq!(
        words_of_type("OpenQuestionGuard").collect::<Vec<_>>(),
        ["Open", "Question", "Guard"]
    );
    assert!(find_better_name("struct", "ReplyPlace").is_some());
    assert!(find_better_name("struct", "Placement").is_none());
    assert!(find_better_name("fn", "carry_out").is_some());
}
