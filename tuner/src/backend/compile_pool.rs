//! Compilers in child processes: a driver compiles one kernel at a time in each, however many threads ask.

use std::sync::{Mutex, PoisonError};

use bsr_codegen::KernelSpec;

use super::{Backend as _, Remote};
use crate::compile::Compiler;

/// Backends that compile what others measure. Each is started when all the others are busy, so there are as many as threads
/// that ask.
pub struct CompilePool {
    start: Box<dyn Fn(usize) -> Remote + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Remote>,
    started: usize,
}

impl CompilePool {
    /// Backends that `start` makes, numbered from 0. Nothing is started yet.
    pub fn new(start: impl Fn(usize) -> Remote + Send + Sync + 'static) -> Self {
        Self { start: Box::new(start), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Remote {
        let mut state = self.state();
        state.idle.pop().unwrap_or_else(|| {
            state.started += 1;
            (self.start)(state.started - 1)
        })
    }
}

impl Compiler for CompilePool {
    fn compile(&self, spec: &KernelSpec) -> Result<Option<f64>, String> {
        let mut backend = self.take();
        let compiled = backend.compile(spec).map_err(|trouble| trouble.message);
        self.state().idle.push(backend);
        compiled
    }
}
