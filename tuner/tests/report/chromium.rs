//! A page in a headless chromium, by its DevTools protocol over a pair of pipes.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

/// How long a test waits for the browser: it fails rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// One page of one browser, which ends with it.
pub(crate) struct Page {
    browser: Child,
    commands: RefCell<ChildStdin>,
    answers: Receiver<Value>,
    events: Arc<Mutex<Vec<Value>>>,
    number: Cell<u64>,
    session: String,
}

impl Page {
    /// An empty page. The browser keeps its profile in `folder`.
    pub(crate) fn open(chromium: &Path, folder: &Path, options: &[&str]) -> Self {
        // Its end of the protocol are the descriptors 3 and 4.
        let mut browser = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#])
            .arg(chromium)
            .args(["--headless", "--no-sandbox", "--remote-debugging-pipe", "--window-size=1280,900", "--no-first-run"])
            .args(["--disable-component-update", "--no-default-browser-check", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, output) = (browser.stdin.take().unwrap(), browser.stdout.take().unwrap());
        let (send, answers) = channel();
        let events = Arc::new(Mutex::new(vec![]));
        let met = events.clone();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let message: Value = serde_json::from_slice(&message).unwrap();
                if message.get("id").is_none() {
                    met.lock().unwrap().push(message);
                } else if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut page =
            Self { browser, commands: commands.into(), answers, events, number: Cell::new(0), session: String::new() };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        page.session = page.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page
    }

    /// What a command answers.
    ///
    /// # Panics
    /// When the browser refuses it, or says nothing for [`PATIENCE`].
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn ask(&self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.number.replace(self.number.get() + 1);
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut commands = self.commands.borrow_mut();
        commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        commands.flush().unwrap();
        loop {
            let mut answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == json!(id) {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }

    /// The value of an expression, or what was thrown.
    pub(crate) fn evaluate(&self, expression: &str) -> Result<Value, Value> {
        let options = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.ask("Runtime.evaluate", options)?;
        match answer["exceptionDetails"].is_null() {
            true => Ok(answer["result"]["value"].take()),
            false => Err(answer["exceptionDetails"].take()),
        }
    }

    /// A click with the mouse, where the element is.
    pub(crate) fn click(&self, selector: &str) {
        let middle = "e.scrollIntoView({ block: 'center' }), (b => [b.x + b.width / 2, b.y + b.height / 2])(e.getBoundingClientRect())";
        let at = self.evaluate(&format!("(e => ({middle}))(document.querySelector({}))", json!(selector)));
        let at = at.unwrap_or_else(|error| panic!("{selector}: {error}"));
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({
                "type": kind, "x": at[0], "y": at[1], "button": button, "buttons": buttons, "clickCount": 1
            });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The Enter key, on an element that has the focus.
    pub(crate) fn press_enter(&self, selector: &str) {
        self.evaluate(&format!("document.querySelector({}).focus()", json!(selector))).unwrap();
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Text, typed where the focus is.
    pub(crate) fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The page as a PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        BASE64.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    /// What the page complained of: exceptions, errors and warnings.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].iter().any(|kind| event["params"]["type"] == *kind)
            }
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| is_complaint(event)).map(|event| event["params"].to_string()).collect()
    }

    /// The addresses that the page asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let sent = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| Some(event["params"]["request"]["url"].as_str()?.to_owned())).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A browser that is gone already is as good.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
