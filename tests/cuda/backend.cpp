// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/backend.hpp>

#include <causeway/cuda/adamw.hpp>
#include <causeway/nn/gpt.hpp>

#include "cuda/host_queue.hpp"
#include "cuda/model_case.hpp"
#include "nn/golden.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <memory>
#include <vector>

using namespace causeway;
using causeway_test::golden_gpt;
using causeway_test::host_engine;
using causeway_test::on_device;

TEST_CASE("cuda backend: loss and every gradient of GPT and Llama equal PyTorch's", "[cuda][fast]") {
  causeway_test::check_golden(on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), host_engine()), "gpt");
  causeway_test::check_golden(on_device<nn::basic_llama<cuda::backend>>(causeway_test::golden_llama(), host_engine()),
                              "llama");
}

TEST_CASE("cuda backend: ten AdamW steps on the device have PyTorch's losses", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  {
    const auto engine = host_engine(report);
    const auto g = testing::read_golden("gpt");
    auto m = on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), engine);
    testing::load_weights(g, m.parameters());
    testing::check_training(g, m, 1e-4, cuda::adamw{engine});
  }
  CHECK(report->reserved == 0);
}

TEST_CASE("cuda backend: bf16 on the tensor cores' bodies, dropout and recomputation agree with the CPU", "[cuda][fast]") {
  causeway_test::compare_models_with_cpu(host_engine());
}

TEST_CASE("cuda backend: a pass that fails says so, and the next one works", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  auto m = on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), host_engine(report));
  const auto g = testing::read_golden("gpt");
  const auto expected = m.evaluate(g.inputs, g.targets, 2);
  REQUIRE(expected);
  for (std::int64_t n = 0; n < 50; n += 7) {
    CAPTURE(n);
    report->fail_at = n;
    const auto lost = m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0);
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == errc::device_lost);
    CHECK(m.activation_memory().in_use() == 0);
    report->fail_at = -1;
    const auto again = m.evaluate(g.inputs, g.targets, 2);
    REQUIRE(again);
    CHECK(*again == *expected);
  }
}

TEST_CASE("cuda backend: a pass that failed before the weights were rounded to bf16 leaves that to the next",
          "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  auto options = golden_gpt();
  options.precision = nn::precision::bf16;
  options.width = 64, options.heads = 1;
  auto m = on_device<nn::basic_gpt<cuda::backend>>(options, host_engine(report));
  auto twin = on_device<nn::basic_gpt<cuda::backend>>(options, host_engine());
  const auto g = testing::read_golden("gpt");
  REQUIRE(m.evaluate(g.inputs, g.targets, 2));
  for (auto* model : {&m, &twin}) {
    for (float& v : model->parameters().values()) v *= 1.5F;
    model->parameters().touch();
  }
  report->fail_at = 0;
  REQUIRE_FALSE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
  report->fail_at = -1;
  CHECK(*m.evaluate(g.inputs, g.targets, 2) == *twin.evaluate(g.inputs, g.targets, 2));
}

TEST_CASE("cuda backend: parameters are fetched when they have changed, and only then", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  auto m = on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), host_engine(report));
  const auto g = testing::read_golden("gpt");
  const std::size_t all = m.parameters().values().size_bytes();
  for (int pass = 0; pass < 2; ++pass) {
    REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
    CHECK(report->fetched == all);
  }
  m.parameters().touch();
  REQUIRE(m.evaluate(g.inputs, g.targets, 2));
  CHECK(report->fetched == 2 * all);
}

TEST_CASE("cuda backend: generation reads logits that the device made", "[cuda][fast]") {
  auto there = on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), host_engine());
  auto here = nn::gpt::create(golden_gpt());
  REQUIRE(here);
  std::vector<float> a(41), b(41);
  const std::vector<std::int32_t> tokens{3, 1, 40, 7};
  REQUIRE(there.next_token_logits(tokens, a));
  REQUIRE(here->next_token_logits(tokens, b));
  CHECK(testing::relative_difference(a, b) < 1e-4);
}
