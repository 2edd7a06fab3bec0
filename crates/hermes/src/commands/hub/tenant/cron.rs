//! `hermes tenant cron …`: jobs of a tenant's agent.

use serde_json::{Map, Value};

use super::{runs, tenant_call};
use crate::{
    cli::{JobMembers, TenantCronCommand},
    commands::hub::client::{Column, HubCall, HubClient, RunWatcher, call},
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("SCHEDULE", "/schedule/display"),
    ("STATE", "/state"),
    ("NEXT", "/next_run_at"),
    ("LAST", "/last_status"),
];
const EXECUTIONS: &[Column] = &[
    ("RUN", "/runId"),
    ("STATUS", "/status"),
    ("DUE", "/dueAt"),
    ("CREATED", "/createdAt"),
];

pub(super) fn run(hub: &HubClient<'_>, command: TenantCronCommand) -> Result<(), Failure> {
    let job_of =
        |operation, tenant: &str, job: &str| tenant_call(operation, tenant).with("job_id", job);
    match command {
        TenantCronCommand::List { tenant } => {
            let answer = hub.call(&tenant_call("list_tenant_crons", &tenant))?;
            hub.show_list(
                &answer,
                "jobs",
                COLUMNS,
                "There are no jobs. `hermes tenant cron create` makes one.",
            );
            Ok(())
        }
        TenantCronCommand::Get(args) => {
            let answer = hub.call(&job_of("get_tenant_cron", &args.tenant, &args.job))?;
            hub.show_members(&answer.value["job"]);
            let executions = answer.value["executions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if !executions.is_empty() {
                hub.output().line("");
                hub.show_items(&executions, EXECUTIONS, "");
            }
            Ok(())
        }
        TenantCronCommand::Create(args) => {
            let mut job = job_members(args.members)?;
            for (name, value) in [
                ("schedule", args.schedule),
                ("prompt", args.prompt),
                ("id", args.id),
            ] {
                job.extend(value.map(|value| (name.to_owned(), value.into())));
            }
            print_job(
                hub,
                &tenant_call("create_tenant_cron", &args.tenant).with("job", job),
                "is made",
            )
        }
        TenantCronCommand::Update(args) => {
            let mut patch = job_members(args.members)?;
            for (name, value) in [("schedule", args.schedule), ("prompt", args.prompt)] {
                patch.extend(value.map(|value| (name.to_owned(), value.into())));
            }
            let call = job_of("update_tenant_cron", &args.job.tenant, &args.job.job);
            let call = call.with("patch", patch).if_match(args.version.if_match);
            print_job(hub, &call, "is changed")
        }
        TenantCronCommand::Delete(args) => {
            let job = &args.job;
            hub.confirm(args.sure.yes, &format!("Delete the job `{}`?", job.job))?;
            hub.call(&job_of("delete_tenant_cron", &job.tenant, &job.job))?;
            hub.output().note(format!("Deleted `{}`.", job.job));
            Ok(())
        }
        TenantCronCommand::Pause(args) => {
            let call = job_of("pause_tenant_cron", &args.job.tenant, &args.job.job);
            print_job(hub, &call.with_optional("reason", args.reason), "is paused")
        }
        TenantCronCommand::Resume(args) => print_job(
            hub,
            &job_of("resume_tenant_cron", &args.tenant, &args.job),
            "goes on",
        ),
        TenantCronCommand::Run(args) => {
            let (tenant, job) = (&args.job.tenant, &args.job.job);
            let call = job_of("run_tenant_cron", tenant, job);
            if args.watch {
                let answer = hub.call_quietly(&call)?;
                return RunWatcher::new(hub, tenant, answer.text("/runId"), 0).follow();
            }
            let answer = hub.call(&call)?;
            runs::print_started(hub, tenant, answer.text("/runId"));
            Ok(())
        }
    }
}

/// Does something with a job and says what it is now.
fn print_job(hub: &HubClient<'_>, call: &HubCall, what: &str) -> Result<(), Failure> {
    let answer = hub.call(call)?;
    let (name, id) = (
        printable(answer.text("/job/name")),
        printable(answer.text("/job/id")),
    );
    let next = match answer.text("/job/next_run_at") {
        "" => String::new(),
        next => format!("; next: {}", printable(next)),
    };
    hub.output().note(format!("{name} (`{id}`) {what}{next}."));
    let understood = &answer.value["understood"];
    if let Some(words) = understood["words"].as_str() {
        let times = understood["next"].as_array();
        let times = times.into_iter().flatten().filter_map(Value::as_str);
        let times: Vec<_> = times.map(|time| printable(time).to_string()).collect();
        if !times.is_empty() {
            let (words, times) = (printable(words), times.join(", "));
            hub.output()
                .note(format!("It runs {words}; next: {times}."));
        }
    }
    Ok(())
}

/// The members that the arguments name, over those of a file.
fn job_members(args: JobMembers) -> Result<Map<String, Value>, Failure> {
    let mut members = call::read_optional_object(args.from.as_deref())?;
    for (name, value) in [
        ("name", args.name),
        ("deliver", args.deliver),
        ("model", args.model),
    ] {
        members.extend(value.map(|value| (name.to_owned(), value.into())));
    }
    if !args.skills.is_empty() {
        members.insert("skills".into(), args.skills.into());
    }
    Ok(members)
}
