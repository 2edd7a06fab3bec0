//! Voice messages as text: by a service, by a program, and what goes wrong with them.

use std::{path::PathBuf, time::Duration};

use hermes_agent::{
    conversation::{Agent, AgentParts},
    speech::TranscriptionError,
};
use hermes_config::{Home, Settings, Variables};
use hermes_store::{Access, Store};
use hermes_testkit::{
    TemporaryHome, eventually,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};

const LIMIT: Duration = Duration::from_secs(20);

/// A home with a voice message in it.
struct SpeechFixture {
    home: TemporaryHome,
    sound: PathBuf,
}

impl SpeechFixture {
    fn new(config: &str) -> Self {
        let home = TemporaryHome::with_config(config);
        let sound = home.write("cache/audio/1.ogg", "OggS Water the plants.");
        Self { home, sound }
    }

    async fn agent(&self, variables: &[(&str, &str)]) -> Agent {
        let home = Home::at(self.home.path());
        let variables = Variables::from_pairs(variables.iter().copied());
        let settings = Settings::load_with(&home, variables, Vec::new()).unwrap();
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let parts = AgentParts {
            environment: std::env::vars_os().collect(),
            ..AgentParts::new(home, store)
        };
        Agent::new(parts, settings)
    }

    async fn transcribe(&self, variables: &[(&str, &str)]) -> Result<String, TranscriptionError> {
        self.agent(variables).await.transcribe(&self.sound).await
    }
}

fn service(server: &ModelServer, more: &str) -> SpeechFixture {
    SpeechFixture::new(&format!(
        "stt: {{base_url: '{}', model: whisper-1{more}}}",
        server.base_url()
    ))
}

#[tokio::test]
async fn a_service_gets_the_file_the_model_the_language_and_the_key() {
    let server = ModelServer::start(ModelScript::echo().with_key("stt-key"));
    let fixture = service(&server, ", language: de, api_key: '${STT_KEY}'");
    let said = fixture.transcribe(&[("STT_KEY", "stt-key")]).await;
    assert_eq!(said.as_deref(), Ok("Water the plants."));
    let asked = server.transcriptions();
    let fields = ["model", "language", "response_format"].map(|name| asked[0].field(name));
    assert_eq!(fields, ["whisper-1", "de", "json"]);
    assert_eq!(asked[0].files[0].file_name, "voice.ogg");
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer stt-key"));
}

#[tokio::test]
async fn a_key_of_another_service_is_not_sent() {
    let server = ModelServer::start(ModelScript::echo());
    let fixture = service(&server, "");
    let variables = [
        ("OPENAI_API_KEY", "sk-other"),
        ("GROQ_API_KEY", "gsk-other"),
    ];
    fixture.transcribe(&variables).await.unwrap();
    assert_eq!(server.transcriptions()[0].authorization, None);
}

#[tokio::test]
async fn a_refused_key_is_told_with_its_place_and_without_the_key() {
    let server = ModelServer::start(ModelScript::echo().with_key("right"));
    let fixture = service(&server, ", key_env: STT_KEY");
    let error = fixture
        .transcribe(&[("STT_KEY", "sk-wrong-key")])
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("refused the key (401)") && text.contains("`STT_KEY`"),
        "{text}"
    );
    assert!(!text.contains("sk-wrong-key"), "{text}");
    // It is not tried again.
    assert_eq!(server.transcriptions().len(), 1);
    let none = SpeechFixture::new("stt: {provider: groq}")
        .transcribe(&[])
        .await;
    let text = none.unwrap_err().to_string();
    assert!(text.contains("needs a key: set `GROQ_API_KEY`"), "{text}");
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_given_up() {
    let script = ModelScript::echo().with_transcripts([ScriptedAnswer::Silence]);
    let server = ModelServer::start(script);
    let error = service(&server, ", timeout: 0.3").transcribe(&[]).await;
    assert_eq!(
        error,
        Err(TranscriptionError::TimedOut {
            after: Duration::from_millis(300)
        })
    );
}

#[tokio::test]
async fn a_service_that_is_busy_is_asked_again() {
    let busy = ScriptedAnswer::status(503, "overloaded");
    let server = ModelServer::start(ModelScript::echo().with_transcripts([busy]));
    let said = service(&server, "").transcribe(&[]).await;
    assert_eq!(said.as_deref(), Ok("Water the plants."));
    assert_eq!(server.transcriptions().len(), 2);
    let refused = ScriptedAnswer::status(400, "Audio file might be corrupted or unsupported");
    let server = ModelServer::start(ModelScript::echo().with_transcripts([refused]));
    let error = service(&server, "").transcribe(&[]).await.unwrap_err();
    assert!(error.to_string().contains("might be corrupted"), "{error}");
    assert_eq!(server.transcriptions().len(), 1);
}

#[tokio::test]
async fn silence_and_files_that_are_too_large_are_no_transcripts() {
    let silent = [ScriptedAnswer::text(" \n")];
    let server = ModelServer::start(ModelScript::echo().with_transcripts(silent));
    let fixture = service(&server, "");
    assert_eq!(
        fixture.transcribe(&[]).await,
        Err(TranscriptionError::NothingSaid)
    );
    let file = std::fs::File::create(&fixture.sound).unwrap();
    file.set_len(26 << 20).unwrap();
    let error = fixture.transcribe(&[]).await.unwrap_err();
    assert!(error.to_string().contains("26 MB"), "{error}");
    assert_eq!(server.transcriptions().len(), 1);
}

#[tokio::test]
async fn without_an_engine_nothing_is_asked() {
    let fixture = SpeechFixture::new("");
    let said = fixture.transcribe(&[("OPENAI_API_KEY", "sk-model")]).await;
    assert_eq!(said, Err(TranscriptionError::NoEngine));
}

#[tokio::test]
async fn a_program_prints_the_text_or_writes_it_to_a_file() {
    let printed =
        "stt: {command: [sh, -c, 'tail -c +6 \"$0\"; echo \"key=$STT_SECRET\" >&2', '{path}']}";
    let said = SpeechFixture::new(printed).transcribe(&[]).await;
    assert_eq!(said.as_deref(), Ok("Water the plants."));
    let written = "stt: {command: [sh, -c, 'echo noise; echo \"$1 spoken\" >\"$0\"', '{output_path}', '{language}'], language: de}";
    let said = SpeechFixture::new(written).transcribe(&[]).await;
    assert_eq!(said.as_deref(), Ok("de spoken"));
    let named = "stt: {command: 'sh -c \"echo named > $0/1.txt\" {output_dir}'}";
    let said = SpeechFixture::new(named).transcribe(&[]).await;
    assert_eq!(said.as_deref(), Ok("named"));
}

#[tokio::test]
async fn a_program_that_fails_is_told_with_its_last_line() {
    let config = "stt: {command: [sh, -c, 'echo one >&2; echo no such model >&2; exit 3']}";
    let error = SpeechFixture::new(config)
        .transcribe(&[])
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("exit status: 3: no such model"), "{text}");
    let missing = SpeechFixture::new("stt: {command: [no-such-program-here, '{path}']}");
    let text = missing.transcribe(&[]).await.unwrap_err().to_string();
    assert!(
        text.contains("`no-such-program-here` cannot be started"),
        "{text}"
    );
    let flood = SpeechFixture::new("stt: {command: [sh, -c, 'head -c 2000000 /dev/zero']}");
    let text = flood.transcribe(&[]).await.unwrap_err().to_string();
    assert!(text.contains("more than 1 MB"), "{text}");
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_all_it_started() {
    let config =
        "stt: {timeout: 1, command: [sh, -c, 'sleep 600 & echo $! >\"$0.pid\"; wait', '{path}']}";
    let fixture = SpeechFixture::new(config);
    let error = fixture.transcribe(&[]).await.unwrap_err();
    assert!(
        matches!(error, TranscriptionError::TimedOut { .. }),
        "{error}"
    );
    let pid = fixture.sound.with_extension("ogg.pid");
    // On a busy machine it may not have come that far.
    if let Ok(pid) = std::fs::read_to_string(pid)
        && let pid = pid.trim().to_owned()
        && !pid.is_empty()
    {
        let is_gone = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        assert!(eventually(LIMIT, is_gone).await);
    }
}

#[tokio::test]
async fn a_program_sees_no_key_of_the_home() {
    let config = "stt: {command: [sh, -c, 'echo \"seen:$OPENAI_API_KEY$TELEGRAM_BOT_TOKEN.\"']}";
    let fixture = SpeechFixture::new(config);
    fixture
        .home
        .write_env("OPENAI_API_KEY=sk-1\nTELEGRAM_BOT_TOKEN=1:x\n");
    let variables = [("OPENAI_API_KEY", "sk-1"), ("TELEGRAM_BOT_TOKEN", "1:x")];
    assert_eq!(
        fixture.transcribe(&variables).await.as_deref(),
        Ok("seen:.")
    );
}
