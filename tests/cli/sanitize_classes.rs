//! The examples of the page on what `bsr sanitize` finds: each has the class under whose heading it is, and no
//! other that the section does not link.

use std::fs;
use std::path::Path;

use super::bsr;

const PAGE: &str = include_str!("../../docs/src/sanitize-classes.md");

/// What the page says of an example's kernel.
fn kernel(body: &str) -> String {
    let zeros = "
        mad.lo.u32 %r0, %t, 16, %tile;
        mov.u32 %r1, 0;
        st.shared.v4.u32 [%r0], { %r1, %r1, %r1, %r1 };
        fence.proxy.async.shared::cta;
        bar.sync 0;
        bfe.u32 %r0, %tile, 4, 14;
        cvt.u64.u32 %desc, %r0;
        or.b64 %desc, %desc, 0x1000080000;";
    let zeros = if body.contains("%desc") { zeros } else { "" };
    let [map, of_map] = match body.contains("%map") {
        true => [", .param .align 64 .b8 map[128]", "mov.b64 %map, map;\ncvta.param.u64 %map, %map;"],
        false => ["", ""],
    };
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64
        .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
        .visible .entry example(.param .u64 out{map}) {{
        .reg .pred %p, %first;
        .reg .b32 %t, %tile, %own, %r<8>;
        .reg .b64 %out, %mine, %desc, %map, %rd<4>;
        .reg .f32 %f<4>;
        .shared .align 1024 .b8 shared_tile[2048];
        .shared .align 8 .b64 bar;
        mov.u32 %t, %tid.x;
        setp.eq.u32 %first, %t, 0;
        mov.u32 %tile, shared_tile;
        mad.lo.u32 %own, %t, 4, %tile;
        ld.param.u64 %out, [out];
        mad.wide.u32 %mine, %t, 4, %out;{zeros}
        {of_map}
        {body}
        ret;
        }}"
    )
}

/// And of its launch, by the first line.
fn launch(body: &str) -> String {
    let says = |words: &str| body.starts_with(&format!("// {words}\n"));
    let grid = if says("2 blocks") || says("a cluster of 2 blocks") { 2 } else { 1 };
    let cluster = if says("a cluster of 2 blocks") { 2 } else { 1 };
    let block = if says("128 threads") { 128 } else { 64 };
    let dependent = says("a dependent launch");
    let after = if says("out is unchanged") { "unchanged" } else { "equal" };
    let map = match body.contains("%map") {
        true => "[[params]]\ntensor_map = { buffer = \"out\", dims = [32, 4], strides = [128], box = [8, 1] }\n",
        false => "",
    };
    format!(
        "grid = [{grid}, 1, 1]\ncluster = [{cluster}, 1, 1]\nblock = {block}\ndependent = {dependent}
        [buffers.out]\ntype = \"u32\"\nshape = [128]\nvalues = \"index\"\nafter = \"{after}\"
        [[params]]\nbuffer = \"out\"\n{map}"
    )
}

/// The classes of the findings in an example.
fn found(folder: &Path, body: &str) -> Vec<String> {
    let [text, launched] = [("example.ptx", kernel(body)), ("launch.toml", launch(body))].map(|(name, contents)| {
        let path = folder.join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let args =
        ["sanitize", &text, "--launch", &launched, "--schedules", "16", "--max-steps", "20000", "--format", "json"];
    let out = bsr(&args).assert().get_output().clone();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|_| panic!("{body}\n{}", String::from_utf8_lossy(&out.stderr)));
    let mut classes: Vec<String> =
        report["findings"].as_array().unwrap().iter().map(|f| f["class"].as_str().unwrap().to_owned()).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

#[test]
fn every_example_has_its_class_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let sections: Vec<&str> = PAGE.split("\n### ").skip(1).collect();
    for section in &sections {
        let name = section.lines().next().unwrap();
        let body = section.split_once("```text\n").and_then(|(_, rest)| rest.split_once("```")).map(|(body, _)| body);
        let found = found(folder.path(), body.unwrap_or_else(|| panic!("{name} has no example")));
        let linked = |class: &String| class == name || section.contains(&format!("(#{class})"));
        if !found.iter().any(|class| class == name) || !found.iter().all(linked) {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(sections.len() > 30, "{} sections", sections.len());
}
