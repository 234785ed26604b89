// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/engine.hpp>

#include <causeway/cuda/adamw.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include "cuda/device_functions.hpp"
#include "cuda/first_device.hpp"
#include "cuda/model_case.hpp"
#include "cuda/row_case.hpp"
#include "cuda/sparse_case.hpp"
#include "nn/golden.hpp"
#include "support/catch.hpp"

using namespace causeway;
using causeway_test::first_device;
using causeway_test::golden_gpt;
using causeway_test::golden_llama;

TEST_CASE("cuda engine: a device that is not there is refused", "[cuda][gpu][fast]") {
  const auto none = causeway_test::engine_of_device(1 << 20);
  REQUIRE_FALSE(none);
  CHECK((none.error().code == errc::unsupported || none.error().code == errc::invalid_argument));
}

TEST_CASE("cuda engine: models on the device have PyTorch's losses, gradients and ten AdamW steps", "[cuda][gpu][fast]") {
  const auto engine = first_device();
  if (engine == nullptr) return;
  INFO(engine->describe());
  causeway_test::check_golden(causeway_test::on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), engine), "gpt");
  causeway_test::check_golden(causeway_test::on_device<nn::basic_llama<cuda::backend>>(golden_llama(), engine), "llama");
  const auto g = testing::read_golden("gpt");
  auto m = causeway_test::on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), engine);
  testing::load_weights(g, m.parameters());
  testing::check_training(g, m, 1e-4, cuda::adamw{engine});
}

TEST_CASE("cuda engine: bf16, dropout and recomputation on the device agree with the CPU", "[cuda][gpu][fast]") {
  const auto engine = first_device();
  if (engine == nullptr) return;
  causeway_test::compare_models_with_cpu(engine);
}

TEST_CASE("cuda engine: a second equal step asks the device for no memory and gives the same bits", "[cuda][gpu][fast]") {
  const auto engine = first_device();
  if (engine == nullptr) return;
  const auto g = testing::read_golden("gpt");
  auto m = causeway_test::on_device<nn::basic_gpt<cuda::backend>>(golden_gpt(), engine);
  testing::load_weights(g, m.parameters());
  const auto first = m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0);
  const auto held = m.activation_memory().allocations();
  const auto second = m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(*first == *second);
  CHECK(m.activation_memory().allocations() == held);
}

TEST_CASE("cuda engine: a recorded pass has the bits of one that is run", "[cuda][gpu][fast]") {
  if (first_device() == nullptr) return;
  auto options = golden_gpt();
  options.dropout = 0.2F;
  const auto g = testing::read_golden("gpt");
  std::vector<double> losses[2];
  std::vector<std::vector<float>> gradients[2];
  for (const bool graphs : {false, true}) {
    auto engine = causeway_test::engine_of_device(0, graphs);
    REQUIRE(engine);
    auto m = causeway_test::on_device<nn::basic_gpt<cuda::backend>>(options, *engine);
    cuda::adamw inner{*engine};
    inner.reset(m.parameters().length());
    for (std::uint64_t pass = 0; pass < 8; ++pass) {
      const auto all = m.parameters().gradients();
      m.backend().zero(all.data(), static_cast<std::int64_t>(all.size()));
      const auto loss = m.forward_backward(g.inputs, g.targets, 2, 0.125F, 7 + pass);
      REQUIRE(loss);
      losses[graphs].push_back(*loss);
      gradients[graphs].emplace_back(all.begin(), all.end());
      inner.step(m.backend().pool(), m.parameters().view(), {.learning_rate = 1e-2F, .gradient_scale = 1.0F});
      m.parameters().touch();
    }
    if (graphs) CHECK(m.replayed_passes() == 6);
  }
  CHECK(losses[0] == losses[1]);
  const bool equal = gradients[0] == gradients[1];
  CHECK(equal);
}

TEST_CASE("cuda engine: codecs, outer steps and hashes of rounds have the CPU's bits", "[cuda][gpu][fast]") {
  const auto engine = first_device();
  if (engine == nullptr) return;
  causeway_test::compare_rounds_with_cpu(engine, 50'001);
  causeway_test::compare_row_arithmetic(engine, 50'001);
  causeway_test::compare_codec(engine, compress::block_int8{}, (std::size_t{5} << 20U) + 77);  // in pieces that overlap
}

TEST_CASE("cuda engine: sparse messages and what they leave behind have the CPU's bits", "[cuda][gpu][fast]") {
  const auto engine = first_device();
  if (engine == nullptr) return;
  causeway_test::sparse_case::compare_all_with_cpu(engine);
  using namespace compress;
  const std::vector<matrix_range> large{{0, 4096, 4096}};  // index bytes and values in pieces
  const std::size_t n = (std::size_t{1} << 24U) + 1'000;
  causeway_test::sparse_case::compare(engine, sparse<dct_tiles, top_k, bits<2>>{dct_tiles{}, top_k{{.k = 512}}}, n, large);
  causeway_test::sparse_case::compare(engine, sparse<no_transform, random_k, none>{{}, random_k{{.share = 0.1}}}, n, large);
}
