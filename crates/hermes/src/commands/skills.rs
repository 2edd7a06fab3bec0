//! `hermes skills …`: the instructions a home keeps for certain kinds of work.

use hermes_store::skills::{Skill, Skills};
use serde_json::{Value, json};

use crate::{
    cli::{SkillViewArgs, SkillsCommand},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone, printable},
};

pub(super) fn run(context: &Context, command: SkillsCommand) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let skills = Skills::new(&context.home, &settings);
    match command {
        SkillsCommand::List => {
            list(context, &skills);
            Ok(())
        }
        SkillsCommand::View(args) => view(context, &skills, &args)
            .map_err(|failure| suggest_skill(failure, &skills, &args.name)),
    }
}

fn list(context: &Context, kept: &Skills) {
    let skills = kept.list();
    let categories = kept.categories(&skills);
    let output = context.output;
    let mut table = Table::new(&["NAME", "CATEGORY", "DESCRIPTION"]);
    for skill in &skills {
        table.row([
            (skill.name.clone(), Tone::Strong),
            (skill.category.clone().unwrap_or_default(), Tone::Plain),
            (skill.description.clone(), Tone::Plain),
        ]);
    }
    if skills.is_empty() {
        let directory = context.home.path().join("skills");
        output.note(format!(
            "There is no skill. One is a directory with a `SKILL.md` below `{}`.",
            directory.display()
        ));
    } else {
        output.table(&table);
    }
    if !categories.is_empty() {
        let mut table = Table::new(&["CATEGORY", "ABOUT"]);
        for (name, about) in &categories {
            let about: Vec<&str> = about.split_whitespace().collect();
            table.row([(name.clone(), Tone::Strong), (about.join(" "), Tone::Plain)]);
        }
        output.line("");
        output.table(&table);
    }
    let skills: Vec<Value> = skills.iter().map(skill_json).collect();
    output.json(json!({"skills": skills, "categories": categories}));
}

fn view(context: &Context, skills: &Skills, args: &SkillViewArgs) -> Result<(), Failure> {
    let output = context.output;
    if let Some(path) = &args.file {
        let text = skills.view_file(&args.name, path)?;
        if output.is_json() {
            output.json(json!({"skill": args.name, "file": path, "content": text}));
        } else {
            output.line(printable(text.trim_end()));
        }
        return Ok(());
    }
    let view = skills.view(&args.name)?;
    output.line(printable(view.body.trim_end()));
    if !view.files.is_empty() {
        let name = &view.skill.name;
        output.note(format!("\nFiles, for `hermes skills view {name} FILE`:"));
        for file in &view.files {
            output.note(format!("  {}", printable(file)));
        }
    }
    let mut object = skill_json(&view.skill);
    object["frontmatter"] = json!(view.skill.frontmatter);
    object["content"] = json!(view.body);
    object["files"] = json!(view.files);
    output.json(json!({"skill": object}));
    Ok(())
}

/// Says which skill was probably meant, if there is none of the name.
pub(super) fn suggest_skill(failure: Failure, skills: &Skills, typed: &str) -> Failure {
    let names = skills.list().into_iter().map(|skill| skill.name);
    match failure.kind {
        FailureKind::NotFound => failure
            .suggest_nearest(typed, names)
            .hint("`hermes skills list` shows what there is"),
        _ => failure,
    }
}

fn skill_json(skill: &Skill) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "category": skill.category,
        "path": skill.directory,
    })
}
