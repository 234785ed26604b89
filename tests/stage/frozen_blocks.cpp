// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/frozen_blocks.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

namespace causeway::stage {
namespace {

constexpr std::int64_t width = 8, sequences = 2, tokens = 5;

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
std::vector<float> drawn(std::size_t count, std::uint64_t seed, float scale = 1.0F) {
  rng draw{seed};
  std::vector<float> all(count);
  for (float& v : all) v = scale * draw.normal();
  return all;
}

/// A number of its own for every parameter of the model, whoever holds it.
result<void> named_values(parameter_store& store) {
  for (std::size_t s = 0; s < store.segments().size(); ++s) {
    const auto& piece = store.segments()[s];
    rng draw{hash_text(piece.name)};
    for (std::int64_t i = 0; i < piece.size(); ++i) store.value(s)[i] = 0.2F * draw.normal();
  }
  return {};
}

const nn::gpt_options gpt{.layers = 4, .heads = 2, .width = width, .context = 8, .vocabulary = 11};
const nn::llama_options llama{
    .layers = 4, .heads = 2, .kv_heads = 1, .width = width, .hidden = 12, .context = 8, .vocabulary = 11};

/// dx and the gradients of what is tuned are those of finite differences.
template <class Family>
void check_gradients(const typename Family::options_type& options, const nn::block_tuning& tuning) {
  auto blocks = valued(frozen_blocks<Family>::create(options, named_values));
  REQUIRE(blocks.hold({1, 4}));
  const std::int64_t each = tuning.values(width, blocks.maps());
  auto x = drawn(sequences * tokens * width, 1), tuned = drawn(static_cast<std::size_t>(2 * each), 2, 0.5F);
  const auto dy = drawn(x.size(), 3);
  const span_pass p{{1, 3}, sequences, tokens, tuning, x, tuned};
  std::vector<float> y(x.size()), dx(x.size()), d_tuned(tuned.size());
  REQUIRE(blocks.backward(p, dy, dx, d_tuned));
  const auto value = [&] {
    REQUIRE(blocks.forward(p, y));
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
    return sum;
  };
  const auto check = [&](std::vector<float>& at, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < at.size(); i += 3) {
      constexpr float h = 1e-2F;
      const float is = at[i];
      at[i] = is + h;
      const double up = value();
      at[i] = is - h;
      const double down = value();
      at[i] = is;
      CHECK(static_cast<double>(gradient[i]) == Approx((up - down) / 0.02).epsilon(0.02).margin(0.02));
    }
  };
  check(x, dx);
  check(tuned, d_tuned);
}

}  // namespace

TEST_CASE("frozen_blocks: gradients of rows, prompts and adapters are those of finite differences", "[stage][fast]") {
  for (const nn::block_tuning& tuning : {nn::block_tuning{2, {}}, nn::block_tuning{0, {2, 0b101}}}) {
    check_gradients<nn::gpt_family>(gpt, tuning);
    check_gradients<nn::llama_family>(llama, tuning);
  }
  check_gradients<nn::gpt_family>(gpt, {1, {1, 0b1101111}});
  check_gradients<nn::llama_family>(llama, {1, {1, 0b1111111}});
}

TEST_CASE("frozen_blocks: adapters whose B is zero change no bit, whichever maps have them", "[stage][fast]") {
  const auto check = [](auto blocks, int maps) {
    REQUIRE(blocks.hold({1, 4}));
    const nn::block_tuning tuning{0, {3, static_cast<std::uint8_t>(maps)}};
    std::vector<float> tuned(static_cast<std::size_t>(2 * tuning.values(width, blocks.maps())));
    for (const std::size_t block : {0U, 1U}) {
      float* to = tuned.data() + block * tuned.size() / 2;
      for (std::size_t m = 0; m < nn::linear_maps; ++m) {
        if (!tuning.adapters.has(m)) continue;
        const auto a = drawn(static_cast<std::size_t>(3 * blocks.maps()[m].inputs), m);
        to = std::copy(a.begin(), a.end(), to) + 3 * blocks.maps()[m].outputs;
      }
    }
    const auto x = drawn(sequences * tokens * width, 1);
    std::vector<float> plain(x.size()), adapted(x.size());
    REQUIRE(blocks.forward({{1, 3}, sequences, tokens, {}, x, {}}, plain));
    REQUIRE(blocks.forward({{1, 3}, sequences, tokens, tuning, x, tuned}, adapted));
    CHECK(plain == adapted);
  };
  for (const int maps : {0b0000101, 0b0001111, 0b0100000, 0b1101111}) {
    check(valued(frozen_blocks<nn::gpt_family>::create(gpt, named_values)), maps);
    check(valued(frozen_blocks<nn::llama_family>::create(llama, named_values)), maps);
  }
}

TEST_CASE("frozen_blocks: a span has the bits of the whole, cut anywhere", "[stage][fast]") {
  auto whole = valued(frozen_blocks<nn::gpt_family>::create(gpt, named_values));
  auto part = valued(frozen_blocks<nn::gpt_family>::create(gpt, named_values));
  REQUIRE(whole.hold({0, 4}));
  const auto x = drawn(sequences * tokens * width, 1), dy = drawn(x.size(), 3);
  std::vector<float> y(x.size()), dx(x.size());
  REQUIRE(whole.forward({{0, 4}, sequences, tokens, {}, x, {}}, y));
  REQUIRE(whole.backward({{0, 4}, sequences, tokens, {}, x, {}}, dy, dx, {}));
  for (std::int64_t cut = 1; cut < 4; ++cut) {
    std::vector<float> middle(x.size()), end(x.size()), back(x.size()), front(x.size());
    REQUIRE(part.hold({0, cut}));
    const auto before = part.parameters().values();
    const std::vector<float> values{before.begin(), before.end()};
    REQUIRE(part.forward({{0, cut}, sequences, tokens, {}, x, {}}, middle));
    REQUIRE(part.hold({cut, 4}));
    REQUIRE(part.forward({{cut, 4}, sequences, tokens, {}, middle, {}}, end));
    CHECK(end == y);
    REQUIRE(part.backward({{cut, 4}, sequences, tokens, {}, middle, {}}, dy, back, {}));
    REQUIRE(part.hold({0, cut}));
    REQUIRE(part.backward({{0, cut}, sequences, tokens, {}, x, {}}, back, front, {}));
    CHECK(front == dx);
    const auto after = part.parameters().values();
    CHECK(std::equal(after.begin(), after.end(), values.begin(), values.end()));
  }
}

TEST_CASE("frozen_blocks: holds no gradients, no embedding and no output layer", "[stage][fast]") {
  auto blocks = valued(frozen_blocks<nn::gpt_family>::create(gpt, named_values));
  REQUIRE(blocks.hold({0, 4}));
  CHECK(blocks.parameters().gradients().empty());
  CHECK(blocks.parameters().gradient(0) == nullptr);
  CHECK(blocks.parameters().segments().size() == 4 * 12);
  for (const auto& s : blocks.parameters().segments()) CHECK(s.name.rfind("h.", 0) == 0);
}

TEST_CASE("frozen_blocks: a span that cannot be held leaves the one before", "[stage][fast]") {
  bool there = true;
  const auto source = [&](parameter_store& s) -> result<void> {
    if (!there) return fail(errc::not_found, "weights", "gone");
    return named_values(s);
  };
  auto blocks = valued(frozen_blocks<nn::gpt_family>::create(gpt, source));
  REQUIRE(blocks.hold({0, 2}));
  CHECK_FALSE(blocks.hold({3, 5}));
  CHECK_FALSE(blocks.hold({2, 2}));
  there = false;
  CHECK_FALSE(blocks.hold({2, 4}));
  CHECK(blocks.held() == nn::block_range{0, 2});
  const auto x = drawn(tokens * width, 1);
  std::vector<float> y(x.size());
  CHECK(blocks.forward({{0, 2}, 1, tokens, {}, x, {}}, y));
}

TEST_CASE("frozen_blocks: other models and precisions are told apart or refused", "[stage][fast]") {
  auto wider = gpt;
  wider.mlp_ratio = 2;
  auto rough = gpt;
  rough.precision = nn::precision::bf16;
  auto wrong = gpt;
  wrong.heads = 3;
  CHECK(family_agreement<nn::gpt_family>(gpt) != family_agreement<nn::gpt_family>(wider));
  CHECK_FALSE(frozen_blocks<nn::gpt_family>::create(rough, named_values));
  CHECK_FALSE(frozen_blocks<nn::gpt_family>::create(wrong, named_values));
}

}  // namespace causeway::stage
