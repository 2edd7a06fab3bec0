use super::*;

fn words(line: &str) -> Vec<Vec<String>> {
    let commands = parse(line).unwrap();
    let texts =
        |command: &ShellCommand| command.words.iter().map(|word| word.text.clone()).collect();
    commands.iter().map(texts).collect()
}

fn only(line: &str) -> ShellCommand {
    let mut commands = parse(line).unwrap();
    assert_eq!(commands.len(), 1, "{commands:?}");
    commands.remove(0)
}

#[test]
fn quotes_and_escapes_are_taken_off() {
    assert_eq!(
        words(r#"a 'b c' "d \" e" f\ g $'h\x69\n'"#),
        [["a", "b c", "d \" e", "f g", "hi\n"]]
    );
    assert_eq!(words(r"r''m -r\f"), [["rm", "-rf"]]);
    assert_eq!(words("a ''"), [["a", ""]]);
    assert_eq!(words("echo 'unfinished"), [["echo", "unfinished"]]);
}

#[test]
fn operators_separate_commands_and_quoted_ones_do_not() {
    assert_eq!(
        words("a; b && c || d & e\nf"),
        [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]
    );
    assert_eq!(words("echo 'a; b' \"c | d\""), [["echo", "a; b", "c | d"]]);
    assert_eq!(words("a # b; c\nd"), [["a"], ["d"]]);
    assert_eq!(words("a#b"), [["a#b"]]);
    assert_eq!(words("a \\\n b"), [["a", "b"]]);
}

#[test]
fn a_pipe_is_known_to_the_command_that_reads_it_and_to_its_group() {
    let piped =
        |line: &str| -> Vec<bool> { parse(line).unwrap().iter().map(|c| c.reads_pipe).collect() };
    assert_eq!(piped("a | b |& c || d"), [false, true, true, false]);
    assert_eq!(piped("a | (b; c); d"), [false, true, true, false]);
    assert_eq!(
        piped("a | while b; do c; done; d"),
        [false, true, true, false]
    );
    assert_eq!(piped("a |\n b"), [false, true]);
}

#[test]
fn substitutions_are_commands_of_their_own() {
    assert_eq!(words("a \"$(b $(c))\" `d` <(e)").len(), 5);
    assert_eq!(words("echo '$(a)'"), [["echo", "$(a)"]]);
    assert_eq!(words("echo ${x:-$(a b)}")[0], ["a", "b"]);
    let command = parse("sh -c \"$(curl x)\"").unwrap().pop().unwrap();
    assert_eq!(command.words[2].substitutions, ["curl x"]);
}

#[test]
fn redirects_are_not_words() {
    let command = only("a 2>err >> out < in 2>&1 b &> all");
    assert_eq!(join_words(&command.words), "a b");
    let targets: Vec<_> = command
        .redirects
        .iter()
        .map(|r| (r.direction, r.target.as_str()))
        .collect();
    let expected = [
        (Direction::Out, "err"),
        (Direction::Out, "out"),
        (Direction::In, "in"),
        (Direction::Out, "all"),
    ];
    assert_eq!(targets, expected);
    assert_eq!(only("> file").redirects.len(), 1);
}

#[test]
fn here_documents_are_input_and_not_commands() {
    let commands = parse("cat <<EOF | sh\nrm -rf /\nEOF\nls").unwrap();
    assert_eq!(commands[0].input.as_deref(), Some("rm -rf /\n"));
    assert_eq!(commands.len(), 3);
    assert_eq!(only("sh <<< 'a b'").input.as_deref(), Some("a b"));
    // Only a quoted delimiter keeps the shell from substituting.
    assert_eq!(parse("cat <<EOF\n$(a)\nEOF").unwrap().len(), 2);
    assert_eq!(parse("cat <<'EOF'\n$(a)\nEOF").unwrap().len(), 1);
    assert_eq!(
        parse("cat <<-EOF\n\tx\n\tEOF\nls").unwrap()[0]
            .input
            .as_deref(),
        Some("x\n")
    );
}

#[test]
fn variables_of_the_line_are_filled_in() {
    assert_eq!(
        words("X=rm; Y='-r -f'; $X $Y \"$Y\" ${X}s"),
        [["rm", "-r", "-f", "-r -f", "rms"]]
    );
    assert_eq!(
        words("for d in /a /b; do rm \"$d\"; done"),
        [["rm", "/a", "/b"]]
    );
    assert_eq!(words("rm${IFS}-rf$IFS/"), [["rm", "-rf", "/"]]);
    assert_eq!(
        words("echo $UNKNOWN ${HOME}"),
        [["echo", "$UNKNOWN", "$HOME"]]
    );
    assert_eq!(words("X=1 env A=b c"), [["env", "A=b", "c"]]);
    assert_eq!(words("A=(rm -rf /); ls"), [["ls"]]);
}

#[test]
fn keywords_are_not_commands() {
    assert_eq!(words("if a; then b; else c; fi"), [["a"], ["b"], ["c"]]);
    assert_eq!(words("case $x in y) a;; esac"), [["a"]]);
    assert_eq!(words("! { a; }"), [["a"]]);
    assert_eq!(words("\"if\" a"), [["if", "a"]]);
}

#[test]
fn commands_know_the_function_they_belong_to() {
    for line in [":(){ :|:& };:", "function f { f | f & }; f"] {
        let commands = parse(line).unwrap();
        assert_eq!(commands.len(), 3, "{commands:?}");
        assert_eq!(
            commands[1].function.as_deref(),
            Some(&*commands[1].words[0].text)
        );
        assert!(commands[1].reads_pipe && commands[1].is_background);
        assert_eq!(commands[2].function, None);
    }
}

#[test]
fn what_would_never_end_is_refused() {
    assert!(parse(&"x".repeat(200_000)).is_err());
    assert!(parse(&"$(".repeat(50)).is_err());
    let doubling: Vec<String> = (0..60)
        .map(|n| format!("A{}=\"$A{n}$A{n}\"", n + 1))
        .collect();
    assert!(parse(&format!("A0=aaaaaaaa;{}", doubling.join(";"))).is_err());
}
