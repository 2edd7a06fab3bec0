//! Tools that need an answer of the client before they can give theirs: the first call returns questions, and the client
//! calls again with the answers and the state it was given.

use hermes_mcp::serve::Principal;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest,
        ElicitResult, ElicitationAction, InputRequest, InputRequiredResult, InputResponses,
        ListRootsRequest, ListRootsResult, RequestStateCodec, SamplingMessage, SealOptions, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    asking,
    content::{plain, sentence},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        plain(
            "test_input_required_result_elicitation",
            "Asks the user's name",
        ),
        plain("test_streaming_elicitation", "Asks the user's name"),
        plain(
            "test_input_required_result_sampling",
            "Asks the client's model",
        ),
        plain(
            "test_input_required_result_list_roots",
            "Asks for the roots",
        ),
        plain(
            "test_input_required_result_request_state",
            "Asks with a state that must come back",
        ),
        plain(
            "test_input_required_result_tampered_state",
            "Asks with a state that must come back",
        ),
        plain(
            "test_input_required_result_multiple_inputs",
            "Asks several things at once",
        ),
        plain(
            "test_input_required_result_multi_round",
            "Asks one thing after another",
        ),
        plain(
            "test_input_required_result_capabilities",
            "Asks what the client can answer",
        ),
        plain("test_missing_capability", "Needs the client's model"),
    ]
}

/// The answer, if the tool is one of these.
pub(super) fn call(
    sealing: &RequestStateCodec,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let call = Call {
        sealing,
        request,
        context,
    };
    Some(match &*request.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => call.name(),
        "test_input_required_result_sampling" => call.sample(),
        "test_input_required_result_list_roots" => call.roots(),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => call.confirm(),
        "test_input_required_result_multiple_inputs" => call.everything(),
        "test_input_required_result_multi_round" => call.one_after_another(),
        "test_input_required_result_capabilities" => call.what_is_possible(),
        "test_missing_capability" => call.needs_a_model(),
        _ => return None,
    })
}

/// One round of a tool call.
struct Call<'c> {
    sealing: &'c RequestStateCodec,
    request: &'c CallToolRequestParams,
    context: &'c RequestContext<RoleServer>,
}

impl Call<'_> {
    fn name(&self) -> Result<CallToolResponse, ErrorData> {
        match self.filled_in("user_name", "name")? {
            Form::Unanswered => self.ask(vec![("user_name", ask_name()?)], None),
            Form::Refused => Ok(nothing_said()),
            Form::Filled(name) => Ok(sentence(format!("Hello, {}!", text(&name))).into()),
        }
    }

    fn sample(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<CreateMessageResult> = self.answer("capital_question")?;
        let Some(answer) = answer else {
            let question = ask_model("What is the capital of France?");
            return self.ask(vec![("capital_question", question)], None);
        };
        let content = json!(answer.message.content);
        Ok(sentence(format!("The model says: {}", content["text"])).into())
    }

    fn roots(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<ListRootsResult> = self.answer("client_roots")?;
        let Some(answer) = answer else {
            return self.ask(vec![("client_roots", ask_roots())], None);
        };
        let roots: Vec<_> = answer.roots.into_iter().map(|root| root.uri).collect();
        Ok(sentence(format!("The roots are {}.", roots.join(", "))).into())
    }

    fn confirm(&self) -> Result<CallToolResponse, ErrorData> {
        match self.filled_in("confirm", "ok")? {
            Form::Unanswered => {
                let question = form("Please confirm", "ok", "boolean")?;
                self.ask(vec![("confirm", question)], Some(self.seal("asked")))
            }
            Form::Refused => Ok(nothing_said()),
            Form::Filled(_) => {
                self.opened_state()?;
                Ok(sentence("state-ok").into())
            }
        }
    }

    fn everything(&self) -> Result<CallToolResponse, ErrorData> {
        let name = self.filled_in("user_name", "name")?;
        let greeting: Option<CreateMessageResult> = self.answer("greeting")?;
        let roots: Option<ListRootsResult> = self.answer("client_roots")?;
        let (Form::Filled(name), Some(_), Some(roots)) = (name, greeting, roots) else {
            let questions = vec![
                ("user_name", ask_name()?),
                ("greeting", ask_model("Generate a greeting")),
                ("client_roots", ask_roots()),
            ];
            return self.ask(questions, Some(self.seal("asked")));
        };
        self.opened_state()?;
        let (name, count) = (text(&name), roots.roots.len());
        Ok(sentence(format!("Hello, {name}, with {count} roots!")).into())
    }

    /// What was answered in the first round travels in the state of the second.
    fn one_after_another(&self) -> Result<CallToolResponse, ErrorData> {
        if let Form::Filled(color) = self.filled_in("step2", "color")? {
            let name = self.opened_state()?;
            return Ok(sentence(format!("{name} likes {}.", text(&color))).into());
        }
        if let Form::Filled(name) = self.filled_in("step1", "name")? {
            self.opened_state()?;
            let question = form("Step 2: What is your favorite color?", "color", "string")?;
            let state = self.seal(&text(&name));
            return self.ask(vec![("step2", question)], Some(state));
        }
        let question = form("Step 1: What is your name?", "name", "string")?;
        self.ask(vec![("step1", question)], Some(self.seal("asked")))
    }

    fn what_is_possible(&self) -> Result<CallToolResponse, ErrorData> {
        let declared = self.context.client_capabilities().unwrap_or_default();
        let all = [
            ("user_name", ask_name()?),
            ("greeting", ask_model("Generate a greeting")),
            ("client_roots", ask_roots()),
        ];
        let possible = all
            .into_iter()
            .filter(|(_, question)| missing(question, &declared).is_none());
        let possible: Vec<_> = possible.collect();
        if possible.is_empty() || self.request.input_responses.is_some() {
            return Ok(sentence("There is nothing more to ask.").into());
        }
        self.ask(possible, None)
    }

    fn needs_a_model(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<CreateMessageResult> = self.answer("answer")?;
        match answer {
            None => self.ask(vec![("answer", ask_model("Say something"))], None),
            Some(_) => Ok(sentence("The model has answered.").into()),
        }
    }

    fn ask(
        &self,
        questions: Vec<(&str, InputRequest)>,
        state: Option<String>,
    ) -> Result<CallToolResponse, ErrorData> {
        ask(questions, state, self.context).map(Into::into)
    }

    fn answer<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ErrorData> {
        answer(self.request.input_responses.as_ref(), key)
    }

    fn filled_in(&self, key: &str, field: &str) -> Result<Form, ErrorData> {
        filled_in(self.request.input_responses.as_ref(), key, field)
    }

    /// Only this principal can come back with it, and only to this tool.
    fn bound_to(&self) -> String {
        let principal = Principal::of(&self.context.extensions);
        let principal = principal.map_or("", Principal::name);
        format!("{principal} tools/call {}", self.request.name)
    }

    fn seal(&self, state: &str) -> String {
        let bound_to = self.bound_to();
        let options = SealOptions::new().associated_data(bound_to.as_bytes());
        self.sealing.seal_with(state.as_bytes(), &options)
    }

    /// The state that came back, if it is one of ours.
    fn opened_state(&self) -> Result<String, ErrorData> {
        let sealed = self.request.request_state.as_deref().unwrap_or_default();
        let opened = self.sealing.open_with(sealed, self.bound_to().as_bytes());
        let state = opened.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(String::from_utf8_lossy(&state).into_owned())
    }
}

/// What became of a form.
pub(super) enum Form {
    /// It has not been shown yet.
    Unanswered,
    /// The user declined or left.
    Refused,
    /// The field has this value.
    Filled(Value),
}

/// Questions for the client, if it declared that it can answer them.
pub(super) fn ask(
    questions: Vec<(&str, InputRequest)>,
    state: Option<String>,
    context: &RequestContext<RoleServer>,
) -> Result<InputRequiredResult, ErrorData> {
    let declared = context.client_capabilities().unwrap_or_default();
    for (_, question) in &questions {
        if let Some(missing) = missing(question, &declared) {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
    }
    let questions = questions
        .into_iter()
        .map(|(key, question)| (key.to_owned(), question));
    Ok(InputRequiredResult::new(Some(questions.collect()), state))
}

/// The capability a question needs, unless it is declared.
fn missing(question: &InputRequest, declared: &ClientCapabilities) -> Option<ClientCapabilities> {
    let needed = ClientCapabilities::builder();
    match question {
        InputRequest::CreateMessage(_) if declared.sampling.is_none() => {
            Some(needed.enable_sampling().build())
        }
        InputRequest::Elicitation(_) if declared.elicitation.is_none() => {
            Some(needed.enable_elicitation().build())
        }
        InputRequest::ListRoots(_) if declared.roots.is_none() => {
            Some(needed.enable_roots().build())
        }
        _ => None,
    }
}

/// The client's answer to a question, if there is one. What was not asked is not looked at.
fn answer<T: DeserializeOwned>(
    answers: Option<&InputResponses>,
    key: &str,
) -> Result<Option<T>, ErrorData> {
    let Some(value) = answers.and_then(|answers| answers.get(key)) else {
        return Ok(None);
    };
    let answer = T::deserialize(value);
    answer.map(Some).map_err(|error| {
        ErrorData::invalid_params(format!("the answer to `{key}` is not valid: {error}"), None)
    })
}

/// What the user wrote into the field of a form.
pub(super) fn filled_in(
    answers: Option<&InputResponses>,
    key: &str,
    field: &str,
) -> Result<Form, ErrorData> {
    let Some(answer) = answer::<ElicitResult>(answers, key)? else {
        return Ok(Form::Unanswered);
    };
    if answer.action != ElicitationAction::Accept {
        return Ok(Form::Refused);
    }
    let value = answer
        .content
        .and_then(|content| content.get(field).cloned());
    value.map(Form::Filled).ok_or_else(|| {
        ErrorData::invalid_params(format!("the answer to `{key}` lacks `{field}`"), None)
    })
}

/// A form with one field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> Result<InputRequest, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    let form = asking::form(message, schema)?;
    Ok(InputRequest::Elicitation(ElicitRequest::new(form)))
}

pub(super) fn ask_name() -> Result<InputRequest, ErrorData> {
    form("What is your name?", "name", "string")
}

fn ask_model(prompt: &str) -> InputRequest {
    let messages = vec![SamplingMessage::user_text(prompt)];
    let params = CreateMessageRequestParams::new(messages, 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

fn ask_roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn nothing_said() -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text("The user did not answer.")]).into()
}
