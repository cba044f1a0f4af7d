//! The page as text: what is in it, what is escaped, what it cannot do.

use bsr_codegen::{Dtype, Plan};
use bsr_runtime::roofs::{LaunchRoof, MeasuredRoofs, TensorRoof};
use bsr_tuner::report::{MOST_PRODUCTS, ReportData, render};
use bsr_tuner::{DeviceKind, TraceOf, Traced, TracedTimes, Verdict};

use crate::sample::{HOSTILE, recorded, sample};

/// The page without plotly, whose text is not ours.
fn ours(page: &str) -> String {
    let at = page.find("plotly.js v").unwrap();
    let end = at + page[at..].find("</script>").unwrap();
    format!("{}{}", &page[..at], &page[end..])
}

fn island(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn nothing_in_the_data_is_taken_for_the_page() {
    let mut data = sample();
    data.rejected[0].reason = format!("reason {HOSTILE}");
    data.records[0].error = Some(HOSTILE.to_owned());
    data.records[1].subject = format!("{HOSTILE}\u{2028}");
    data.records[1].device.name = "NVIDIA \u{2028}<b>".to_owned();
    let page = ours(&render(&data).unwrap());
    // What the page's own scripts and plotly hold is cut away: an attribute, or an element, that data made.
    for made in ["<img", "onerror=\"", "NVIDIA <b>", "NVIDIA \u{2028}<b>"] {
        assert!(!page.contains(made), "{made}");
    }
    // The island, plotly (cut open above) and the page's own: every script ends once, and only where the page ends it.
    assert_eq!(page.matches("</script").count(), 3);
    assert!(page.contains("&lt;img") && page.contains("\\u003cimg") && page.contains("\\u2028"));
    assert!(island(&page).to_string().contains("<img"));
}

#[test]
fn the_page_refers_to_nothing_outside_and_forbids_it() {
    let page = render(&sample()).unwrap();
    let page = ours(&page);
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=\"", "@import", "url("] {
        let place = page.find(outside).map(|at| page[at.saturating_sub(60)..].chars().take(120).collect::<String>());
        assert_eq!(place, None, "{outside}");
    }
}

#[test]
fn a_page_of_many_products_has_an_end() {
    let mut data = sample();
    let record = data.records[0].clone();
    data.records = (0..20_000)
        .map(|seed| {
            let mut record = record.clone();
            record.problem.workload.seed = seed;
            record
        })
        .collect();
    data.rejected.clear();
    let page = ours(&render(&data).unwrap());
    assert_eq!(island(&page)["problems"].as_array().unwrap().len(), MOST_PRODUCTS);
    assert!(
        page.contains(&format!("{} products and", 20_000 - MOST_PRODUCTS))
            && page.contains("20000, 20000 right and timed")
    );
    assert!(page.len() < 32 << 20, "{} bytes", page.len());
    // Of one product with very many kernels the best are shown.
    data.records = (0..60_000)
        .map(|number| bsr_tuner::Record { subject: format!("{} {number}", record.subject), ..record.clone() })
        .collect();
    let page = ours(&render(&data).unwrap());
    assert_eq!(island(&page)["problems"][0]["rows"].as_array().unwrap().len(), 50_000);
}

#[test]
fn times_of_a_model_stand_apart_and_say_so() {
    let data = sample();
    let page = render(&data).unwrap();
    let island = island(&page);
    let problems = island["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 6);
    let kinds: Vec<&str> = problems.iter().map(|problem| problem["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["gpu", "gpu", "gpu", "gpu", "sim", "fake"]);
    // The flagship was swept on all three: as many rows each as it has records there, and none of the others'.
    for (at, kind) in [(0, DeviceKind::Gpu), (4, DeviceKind::Sim), (5, DeviceKind::Fake)] {
        let there = data
            .records
            .iter()
            .filter(|record| record.device.kind == kind && record.problem.workload == data.records[0].problem.workload);
        assert_eq!(problems[at]["rows"].as_array().unwrap().len(), there.count());
    }
    let section = |name: &str| {
        let (_, rest) = page.split_once(&format!("id=\"kind-{name}\"")).unwrap();
        rest.split_once("</section>").unwrap().0.to_owned()
    };
    assert!(!section("gpu").contains("MODEL") && !section("gpu").contains("MADE UP"));
    assert!(section("sim").contains("MODEL:") && !section("sim").contains("H200"));
    assert!(section("fake").contains("MADE UP:"));
}

#[test]
fn the_overview_says_when_not_to_use_us() {
    let page = render(&sample()).unwrap();
    let (_, rest) = page.split_once("id=\"kind-gpu\"").unwrap();
    let overview = rest.split_once("</section>").unwrap().0;
    let advice: Vec<&str> = overview
        .split("<td class=\"advice ")
        .skip(1)
        .map(|cell| cell.split_once("</td>").unwrap().0.split_once("\">").unwrap().1)
        .collect();
    assert_eq!(
        advice,
        [
            "use bsr: 1.8x as fast as cusparse blocked-ell, the best other",
            "use bsr: 2.4x as fast as cublaslt (dense), the best other",
            "do not use bsr here: cublaslt (dense) is 1.2x as fast",
            "no difference above 3 % to cusparse bsr",
        ]
    );
}

#[test]
fn the_winner_is_the_best_ratio_among_what_was_timed_to_the_end() {
    let mut data = sample();
    let of_first = |data: &ReportData| data.records[0].problem.workload.clone();
    let workload = of_first(&data);
    // Had it been timed to the end it would win.
    let slow = data.records.iter_mut().find(|r| r.verdict == Verdict::Slow && r.problem.workload == workload).unwrap();
    slow.dense.as_mut().unwrap().ratio = 9.0;
    let expected = data
        .records
        .iter()
        .filter(|r| r.problem.workload == workload && r.device.kind == DeviceKind::Gpu)
        .filter(|r| r.verdict == Verdict::Timed && !r.baseline)
        .max_by(|a, b| a.dense.as_ref().unwrap().ratio.total_cmp(&b.dense.as_ref().unwrap().ratio))
        .unwrap();
    let page = render(&data).unwrap();
    let copied = page.split_once("data-copy=\"").unwrap().1.split_once('"').unwrap().0;
    // As it is pasted: without what the plan chooses by itself.
    let spec = copied.strip_prefix("#[bsr_kernel(").and_then(|rest| rest.strip_suffix(")]")).unwrap();
    let digest = |spec: &str| Plan::new(&spec.parse().unwrap()).unwrap().digest();
    assert_eq!(digest(spec), digest(&expected.subject));
    assert!(spec.len() <= expected.subject.len(), "{spec}");
}

#[test]
fn a_later_measurement_of_a_kernel_replaces_an_earlier_one() {
    let mut data = sample();
    let mut again = data.records.iter().find(|record| record.verdict == Verdict::Timed).unwrap().clone();
    again.at = "2026-11-22T12:00:00Z".parse().unwrap();
    again.error = Some("measured again".to_owned());
    // Wherever it stands.
    data.records.insert(0, again.clone());
    let page = render(&data).unwrap();
    let rows = island(&page)["problems"][0]["rows"].as_array().unwrap().clone();
    let same: Vec<_> = rows.iter().filter(|row| row["name"] == again.subject.as_str()).collect();
    assert_eq!(same.len(), 1);
    assert_eq!(same[0]["why"], "measured again");
    assert!(page.contains("1 older measurements"));
}

#[test]
fn without_records_there_is_a_page_that_says_so() {
    let page = render(&ReportData::default()).unwrap();
    assert!(page.contains("There are no measurements"));
    assert_eq!(island(&page)["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn a_spec_that_cannot_be_read_is_shown_as_text() {
    let mut data = sample();
    data.records.truncate(30);
    for record in &mut data.records {
        record.subject = format!("{}, key_of_a_later_version = 3", record.subject);
    }
    let page = render(&data).unwrap();
    assert!(page.contains("cannot read this spec"));
    assert!(island(&page)["problems"][0]["rows"][0]["at"].is_null());
}

/// The lesson of the first product's winner.
fn lesson(page: &str) -> String {
    let (_, rest) = page.split_once("<article class=\"lesson\"").unwrap();
    rest.split_once("</article>").unwrap().0.to_owned()
}

#[test]
fn the_winner_teaches_its_limit_what_keys_change_and_what_is_refused() {
    let mut data = sample();
    let found = lesson(&ours(&render(&data).unwrap()));
    assert!(found.contains("What limits it") && found.contains("by the data sheet"), "{found}");
    assert!(found.contains("Simulated timeline of 16 of"), "{found}");
    // The sample's sweep varies these keys one by one.
    for key in ["bn", "stages", "consumers", "cluster"] {
        assert!(found.contains(&format!("\">{key}</th>")), "{key}:\n{found}");
    }
    assert!(found.contains("help:"), "{found}");

    // What was measured on the same card with the same driver takes the data sheet's place.
    let device = data.records.iter().find(|record| record.device.kind == DeviceKind::Gpu).unwrap().device.clone();
    data.roofs.push(MeasuredRoofs {
        gpu: device.name.clone(),
        driver: device.driver.clone(),
        version: String::new(),
        at: 0,
        hbm_read_tbs: 4.5,
        hbm_copy_tbs: 4.0,
        l2_tbs: Some(9.0),
        tensor: vec![TensorRoof { dtype: Dtype::F16, tflops: 700.0, sm_mhz: None, watts: None }],
        launch: LaunchRoof { single_us: 5.0, stream_us: 3.0, graph_us: 2.0 },
    });
    let found = lesson(&ours(&render(&data).unwrap()));
    assert!(!found.contains("data sheet") && found.contains("L2 to shared memory"), "{found}");
    data.roofs[0].driver = "another".to_owned();
    assert!(lesson(&ours(&render(&data).unwrap())).contains("data sheet"));
}

#[test]
fn times_of_a_model_have_no_limit() {
    let mut data = sample();
    data.records.retain(|record| record.device.kind == DeviceKind::Sim);
    let page = ours(&render(&data).unwrap());
    assert!(!lesson(&page).contains("What limits it"));
    let rows = island(&page)["problems"][0]["rows"].clone();
    assert!(rows.as_array().unwrap().iter().all(|row| row["limit"].is_null()), "{rows}");
}

#[test]
fn every_timed_row_has_its_nearest_roof() {
    let page = ours(&render(&sample()).unwrap());
    let rows = island(&page)["problems"][0]["rows"].clone();
    let timed = rows.as_array().unwrap().iter().filter(|row| !row["us"].is_null() && row["baseline"] == false);
    for row in timed {
        assert!(row["limit"].as_str().unwrap().ends_with(" %"), "{row}");
    }
}

/// A timeline stands with the record of its kernel, on a device of its name.
#[test]
fn a_timeline_that_was_recorded_is_shown_with_its_kernel() {
    let mut data = sample();
    let workload = data.records[0].problem.workload.clone();
    let is_of =
        |record: &&bsr_tuner::Record| record.device.kind == DeviceKind::Gpu && record.problem.workload == workload;
    let timed = data.records.iter().filter(is_of).filter(|record| record.verdict == Verdict::Timed && !record.baseline);
    let slowest = timed.max_by(|a, b| {
        let us = |record: &bsr_tuner::Record| record.timing.as_ref().unwrap().median_us;
        us(a).total_cmp(&us(b))
    });
    // Not among the best, which have a lesson in any case.
    let record = slowest.unwrap().clone();
    let times = Some(TracedTimes { plain_us: 100.0, probed_us: 101.0 });
    let of = |device| TraceOf { times, ..TraceOf::now(record.problem.workload.clone(), device, None) };
    let traced = |of: TraceOf| {
        let mut trace = recorded(&record.subject);
        of.write(&mut trace);
        Traced::read(&trace).unwrap()
    };
    let lessons = |data: &ReportData| {
        let page = ours(&render(data).unwrap());
        page.split("<article class=\"lesson\"").skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = |data: &ReportData| {
        lessons(data).into_iter().filter(|lesson| lesson.contains("measured</h4>")).collect::<Vec<_>>()
    };
    let without = lessons(&data).len();
    assert!(shown(&data).is_empty());

    data.traces = vec![traced(of(record.device.clone()))];
    let found = shown(&data);
    assert_eq!((found.len(), lessons(&data).len()), (1, without + 1));
    let name = record.subject.replace('&', "&amp;");
    for words in
        [name.as_str(), "101.0 us with probes, 100.0 us without", "CTA 0, tiles", "t-wgmma", "waiting for full", "UTC"]
    {
        assert!(found[0].contains(words), "{words}:\n{}", found[0]);
    }
    assert!(found[0].contains(&record.device.name) && !found[0].contains("on the simulator</h4>"));

    // Another driver is told; another card's time is not beside this one's, and another problem's neither.
    let mut device = record.device.clone();
    device.driver = "another <b>".to_owned();
    data.traces = vec![traced(of(device.clone()))];
    assert!(shown(&data)[0].contains("driver another &lt;b&gt;"));
    device.name = "another card".to_owned();
    let mut elsewhere = of(record.device.clone());
    elsewhere.workload.seed += 1;
    data.traces = vec![traced(of(device)), traced(elsewhere)];
    assert!(shown(&data).is_empty());
}

#[test]
fn a_timeline_of_the_simulator_is_none_of_a_gpu() {
    let mut data = sample();
    let record = data.records.iter().find(|record| record.device.kind == DeviceKind::Sim && record.timing.is_some());
    let record = record.unwrap().clone();
    let mut trace = recorded(&record.subject);
    TraceOf::now(record.problem.workload.clone(), record.device.clone(), None).write(&mut trace);
    data.traces = vec![Traced::read(&trace).unwrap()];
    let page = ours(&render(&data).unwrap());
    // Under each record of the same kernel, whatever its text leaves to the plan.
    let same = data.records.iter().filter(|other| data.traces[0].is_of(other)).count();
    assert!(same >= 1);
    assert_eq!((page.matches("on the simulator</h4>").count(), page.matches("measured</h4>").count()), (same, 0));
    assert!(page.contains("no time of a GPU") && page.contains("by the clock of a cost model"));
    // A file that does not say what it is of cannot be shown anywhere.
    trace["otherData"].as_object_mut().unwrap().remove("of");
    assert!(Traced::read(&trace).unwrap_err().to_string().contains("which problem"));
}

#[test]
fn power_and_cycles_stand_beside_the_time_where_the_driver_told() {
    let mut data = sample();
    let page = ours(&render(&data).unwrap());
    assert!(!page.contains("thousand cycles"));
    let clock = bsr_runtime::bench::Clock { min: 1400, median: 1500, max: 1700 };
    let power = bsr_runtime::bench::Power {
        watts: Some(688.0),
        limit_watts: Some(700.0),
        sm_mhz: Some(clock),
        memory_mhz: None,
        reasons: vec!["power".to_owned()],
        samples: 9,
    };
    data.records.iter_mut().for_each(|record| record.power = Some(power.clone()));
    let page = ours(&render(&data).unwrap());
    assert!(page.contains("; 688 of 700 W, SM clock 1500 MHz (1400 to 1700), held down by power, "));
    let row = island(&page)["problems"][0]["rows"][0].clone();
    let us = row["us"].as_f64().unwrap();
    assert_eq!((row["mhz"].as_u64(), row["watts"].as_f64()), (Some(1500), Some(688.0)));
    assert!((row["kilocycles"].as_f64().unwrap() - 1.5 * us).abs() < 1e-9);
    let top = bsr_tuner::report::top(&data.records, 1);
    assert!(top[0].power.as_ref().unwrap().ends_with(" thousand cycles"), "{:?}", top[0].power);
}
