// SPDX-License-Identifier: Apache-2.0
// Passes of whole models that are recorded and replayed, against the same passes run directly.
#include <causeway/cuda/recording.hpp>

#include <causeway/cuda/adamw.hpp>
#include <causeway/optim/optimizer.hpp>

#include "cuda/model_case.hpp"
#include "cuda/recording_queue.hpp"

#include <cstring>
#include <utility>
#include <vector>

using namespace causeway;
using causeway_test::golden_gpt;
using causeway_test::golden_llama;
using causeway_test::recording_report;

namespace {

using device_gpt = nn::basic_gpt<cuda::backend>;
using device_llama = nn::basic_llama<cuda::backend>;

/// One pass: `sequences` sequences of 12 tokens, other ones for every number.
struct given {
  std::int64_t sequences;
  std::uint64_t number;
  float scale = 0.125F;
};

/// Loss and gradients after each pass; gradients add up over two passes, then an optimizer step moves the parameters.
struct course {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<errc> errors;
};

template <class Model, class Options>
course train(const Options& options, const std::shared_ptr<cuda::engine>& engine, const std::vector<given>& passes) {
  auto model = causeway_test::on_device<Model>(options, engine);
  cuda::adamw inner{engine};
  inner.reset(model.parameters().length());
  course got;
  int n = 0;
  for (const auto& p : passes) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(p.sequences * 12 + 1));
    rng draw{p.number};
    for (auto& t : tokens) t = static_cast<std::int32_t>(draw.below(41));
    // One array, as a data loader has it: targets lie one behind the inputs.
    const std::span<const std::int32_t> inputs{tokens.data(), tokens.size() - 1},
        targets{tokens.data() + 1, tokens.size() - 1};
    const auto loss = model.forward_backward(inputs, targets, p.sequences, p.scale, 100 + p.number);
    if (!loss) got.errors.push_back(loss.error().code);
    if (loss) got.losses.push_back(*loss);
    const auto g = model.parameters().gradients();
    got.gradients.emplace_back(g.begin(), g.end());
    if (++n % 2 != 0) continue;
    inner.step(model.backend().pool(), model.parameters().view(), {.learning_rate = 1e-2F, .gradient_scale = 1.0F});
    model.parameters().touch();
    model.backend().zero(g.data(), static_cast<std::int64_t>(g.size()));
  }
  return got;
}

void same(const course& a, const course& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    INFO("pass " << i);
    const bool equal = a.gradients[i] == b.gradients[i];
    CHECK(equal);
  }
}

const std::vector<given> eight{{2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {2, 8}};

}  // namespace

TEST_CASE("cuda recording: replayed passes have the bits of direct ones, with dropout and recomputation", "[cuda][fast]") {
  auto gpt = golden_gpt();
  gpt.dropout = 0.2F;
  for (const bool recompute : {false, true}) {
    gpt.recompute = recompute;
    const auto report = std::make_shared<recording_report>();
    const auto got = train<device_gpt>(gpt, causeway_test::recording_engine(report), eight);
    same(got, train<device_gpt>(gpt, causeway_test::host_engine(), eight));
    CHECK(report->recordings == 1);
    CHECK(report->replays == 6);  // all but the first, and the rehearsal
    CHECK(got.losses.front() != got.losses.back());
  }
}

TEST_CASE("cuda recording: so have those of Llama, whose rotary table is made once, and of bf16", "[cuda][fast]") {
  auto llama = golden_llama();
  const auto plain = std::make_shared<recording_report>(), half = std::make_shared<recording_report>();
  same(train<device_llama>(llama, causeway_test::recording_engine(plain), eight),
       train<device_llama>(llama, causeway_test::host_engine(), eight));
  CHECK(plain->replays == 6);
  llama.layers = 1, llama.heads = 2, llama.kv_heads = 1, llama.width = 128, llama.precision = nn::precision::bf16;
  const std::vector<given> five{eight.begin(), eight.begin() + 5};
  same(train<device_llama>(llama, causeway_test::recording_engine(half), five),
       train<device_llama>(llama, causeway_test::host_engine(), five));
  CHECK(half->replays == 3);
}

TEST_CASE("cuda recording: a second table of the same engine outlives the recording in which it was made", "[cuda][fast]") {
  const auto report = std::make_shared<recording_report>();
  const auto engine = causeway_test::recording_engine(report);
  auto other = golden_llama();
  other.theta = 500;
  const std::vector<given> five{eight.begin(), eight.begin() + 5};
  for (int i = 0; i < 2; ++i) {
    same(train<device_llama>(golden_llama(), engine, five),
         train<device_llama>(golden_llama(), causeway_test::host_engine(), five));
    same(train<device_llama>(other, engine, five), train<device_llama>(other, causeway_test::host_engine(), five));
  }
  CHECK(report->recordings == 4);
  CHECK(report->dropped >= 4);
}

TEST_CASE("cuda recording: shapes that change have recordings of their own, the two used last", "[cuda][fast]") {
  const std::vector<given> passes{{2, 1},  {2, 2},  {2, 3},  {1, 4},         {1, 5},         {1, 6},
                                  {2, 7},  {1, 8},  {2, 9},  {2, 10, 0.25F}, {2, 11, 0.25F}, {2, 12, 0.25F},
                                  {1, 13}, {2, 14}, {2, 15}, {1, 16},        {3, 17},        {1, 18}};
  const auto report = std::make_shared<recording_report>();
  same(train<device_gpt>(golden_gpt(), causeway_test::recording_engine(report), passes),
       train<device_gpt>(golden_gpt(), causeway_test::host_engine(), passes));
  CHECK(report->recordings == 3);
  // 3; 6, 7, 8, 9; 12, for which one sequence of 1/8 is forgotten; 14, 15.
  CHECK(report->replays == 8);
}

TEST_CASE("cuda recording: other passes between do not touch what a recording holds", "[cuda][fast]") {
  const auto report = std::make_shared<recording_report>();
  auto there = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::recording_engine(report));
  auto here = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::host_engine());
  const auto g = testing::read_golden("gpt");
  std::vector<float> logits(41), expected(41);
  for (int pass = 0; pass < 6; ++pass) {
    // A micro-batch that waits between forward and backward holds buffers meanwhile.
    const nn::micro_batch b{g.inputs, g.targets, 2, 1.0F, 3};
    auto t = there.make_tape();
    auto u = here.make_tape();
    auto waiting = there.forward_stage(t, {0, there.blocks()}, b);
    auto alike = here.forward_stage(u, {0, here.blocks()}, b);
    REQUIRE(waiting);
    REQUIRE(alike);
    CHECK(*there.forward_backward(g.inputs, g.targets, 2, 1.0F, 0) ==
          *here.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
    CHECK(*there.evaluate(g.inputs, g.targets, 2) == *here.evaluate(g.inputs, g.targets, 2));
    REQUIRE(there.next_token_logits({g.inputs.data(), 5}, logits));
    REQUIRE(here.next_token_logits({g.inputs.data(), 5}, expected));
    CHECK(logits == expected);
    REQUIRE(there.backward_stage(t, *waiting));
    REQUIRE(here.backward_stage(u, *alike));
    const auto a = there.parameters().gradients(), c = here.parameters().gradients();
    const bool equal = std::equal(a.begin(), a.end(), c.begin());
    CHECK(equal);
  }
  CHECK(report->replays == 4);
}

TEST_CASE("cuda recording: a replay waits once and starts nothing else", "[cuda][fast]") {
  const auto counts = std::make_shared<causeway_test::queue_report>();
  const auto report = std::make_shared<recording_report>();
  auto m = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::recording_engine(report, counts));
  const auto g = testing::read_golden("gpt");
  for (int pass = 0; pass < 3; ++pass) REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
  CHECK(report->steps > 50);
  const std::size_t in = counts->in, out = counts->out;
  REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
  CHECK(counts->in - in == 2 * 4 * g.inputs.size() + 8);  // tokens, targets, a seed
  CHECK(counts->out - out == sizeof(double));
  CHECK(report->replays == 2);
  CHECK(m.replayed_passes() == 2);
}

TEST_CASE("cuda recording: tokens that are no tokens are refused before a replay", "[cuda][fast]") {
  const auto report = std::make_shared<recording_report>();
  auto m = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::recording_engine(report));
  auto g = testing::read_golden("gpt");
  for (int pass = 0; pass < 3; ++pass) REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
  g.inputs[3] = 41;
  CHECK(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0).error().code == errc::invalid_argument);
  g.inputs[3] = 0, g.targets[5] = 1 << 20;
  CHECK(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0).error().code == errc::invalid_argument);
  CHECK(report->replays == 1);
}

TEST_CASE("cuda recording: an operation that fails, wherever, is an error of its pass or none, and never a wrong number",
          "[cuda][fast]") {
  const auto g = testing::read_golden("gpt");
  auto small = golden_gpt();
  small.layers = 1;
  auto here = causeway_test::on_device<device_gpt>(small, causeway_test::host_engine());
  const auto expected = here.forward_backward(g.inputs, g.targets, 2, 1.0F, 0);
  const std::vector<float> gradients{here.parameters().gradients().begin(), here.parameters().gradients().end()};
  int in_recording = 0;
  for (std::int64_t at = 0;; ++at) {
    const auto counts = std::make_shared<causeway_test::queue_report>();
    const auto report = std::make_shared<recording_report>();
    auto m = causeway_test::on_device<device_gpt>(small, causeway_test::recording_engine(report, counts));
    counts->fail_at = at;
    int errors = 0;
    for (int pass = 0; pass < 6; ++pass) {
      const auto all = m.parameters().gradients();
      m.backend().zero(all.data(), static_cast<std::int64_t>(all.size()));
      const auto loss = m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0);
      if (!loss) {
        ++errors;
        continue;
      }
      CHECK(*loss == *expected);
      const bool equal = std::equal(gradients.begin(), gradients.end(), all.begin());
      CHECK(equal);
    }
    CHECK(errors <= 1);
    in_recording += errors == 0 && report->replays == 0;
    if (counts->fail_at > 0) break;  // past the end
  }
  CHECK(in_recording > 5);
}

TEST_CASE("cuda recording: where recording is refused or off, passes run as ever", "[cuda][fast]") {
  for (const bool off : {false, true}) {
    const auto report = std::make_shared<recording_report>();
    report->refuse = !off;
    report->on = !off;
    same(train<device_gpt>(golden_gpt(), causeway_test::recording_engine(report), eight),
         train<device_gpt>(golden_gpt(), causeway_test::host_engine(), eight));
    CHECK(report->replays == 0);
  }
}

TEST_CASE(
    "cuda recording: passes ask for no memory after the first one where recording is off, after the rehearsal where it is "
    "on",
    "[cuda][fast]") {
  const auto g = testing::read_golden("gpt");
  for (const bool on : {false, true}) {
    const auto report = std::make_shared<recording_report>();
    const auto counts = std::make_shared<causeway_test::queue_report>();
    report->on = on;
    auto m = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::recording_engine(report, counts));
    REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
    const std::size_t first = counts->reserved;
    for (int pass = 0; pass < 5; ++pass) {
      REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
      CHECK(counts->reserved == first);  // the shared pool gives what the recording's own takes
    }
    CHECK(m.activation_memory().held() == (on ? 0 : m.activation_memory().peak_held()));
  }
}

TEST_CASE("cuda recording: a replay that fails is the pass's error, and the next one may go on", "[cuda][fast]") {
  const auto report = std::make_shared<recording_report>();
  report->fail_replay = 1;
  const auto got = train<device_gpt>(golden_gpt(), causeway_test::recording_engine(report), eight);
  CHECK(got.errors == std::vector<errc>{errc::device_lost});
  CHECK(got.losses.size() == 7);
}

TEST_CASE("cuda recording: parameters that move to other memory are recorded anew", "[cuda][fast]") {
  const auto report = std::make_shared<recording_report>();
  auto there = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::recording_engine(report));
  auto here = causeway_test::on_device<device_gpt>(golden_gpt(), causeway_test::host_engine());
  const auto g = testing::read_golden("gpt");
  for (int pass = 0; pass < 8; ++pass) {
    if (pass == 4) {
      REQUIRE(there.hold({}));
      REQUIRE(here.hold({}));
    }
    CHECK(*there.forward_backward(g.inputs, g.targets, 2, 1.0F, 0) ==
          *here.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
    const auto a = there.parameters().gradients(), c = here.parameters().gradients();
    const bool equal = std::equal(a.begin(), a.end(), c.begin());
    CHECK(equal);
  }
  CHECK(report->recordings == 2);
  CHECK(report->replays == 4);
}
