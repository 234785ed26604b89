// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/embedding.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

struct shape {
  std::int64_t batch, T, C, vocabulary;
};

const std::vector<shape> shapes{{1, 1, 1, 1}, {2, 3, 5, 4}, {2, 50, 70, 11}, {3, 64, 200, 100}};

std::vector<std::int32_t> tokens_of(const shape& s) {
  rng draw{9};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(s.batch * s.T));
  for (auto& token : tokens) token = static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(s.vocabulary)));
  return tokens;
}

std::size_t size_of(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

}  // namespace

TEST_CASE("embedding: forward adds the token's row and the position's", "[kernels][fast]") {
  for (const shape& s : shapes) {
    const auto tokens = tokens_of(s);
    const auto table = test::uniform(size_of(s.vocabulary, s.C), 1);
    const auto positions = test::uniform(size_of(s.T, s.C), 2);
    for (const unsigned threads : {1U, 3U}) {
      thread_pool pool{threads};
      for (const auto level : test::levels()) {
        std::vector<float> both(size_of(s.batch * s.T, s.C)), alone(both.size());
        embedding_forward(pool, tokens.data(), table.data(), positions.data(), both.data(), s.batch, s.T, s.C, level);
        embedding_forward(pool, tokens.data(), table.data(), nullptr, alone.data(), s.batch, s.T, s.C, level);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < both.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / s.C, column = static_cast<std::int64_t>(i) % s.C;
          const float token = table[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * s.C + column)];
          const float position = positions[static_cast<std::size_t>(row % s.T * s.C + column)];
          wrong += alone[i] == token ? 0U : 1U;
          wrong += both[i] == token + position ? 0U : 1U;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("embedding: backward adds up repeated tokens, the same bits for any number of threads", "[kernels][fast]") {
  scratch memory;
  for (const shape& s : shapes) {
    const auto tokens = tokens_of(s);
    const auto dx = test::uniform(size_of(s.batch * s.T, s.C), 3);
    // The forward pass is linear, so its gradient is this sum exactly; finite differences would say the same.
    std::vector<double> dtoken(size_of(s.vocabulary, s.C), 1.0), dposition(size_of(s.T, s.C), 2.0);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / s.C, column = static_cast<std::int64_t>(i) % s.C;
      dtoken[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * s.C + column)] += static_cast<double>(dx[i]);
      dposition[static_cast<std::size_t>(row % s.T * s.C + column)] += static_cast<double>(dx[i]);
    }
    std::vector<float> first;
    for (const unsigned threads : {1U, 2U, 3U}) {
      thread_pool pool{threads};
      for (const auto level : test::levels()) {
        std::vector<float> tokens_gradient(dtoken.size(), 1.0F), positions_gradient(dposition.size(), 2.0F);
        embedding_backward(pool, memory, tokens.data(), dx.data(), tokens_gradient.data(), positions_gradient.data(),
                           s.batch, s.T, s.C, s.vocabulary, level);
        CHECK(test::worst_error(tokens_gradient, dtoken) < 1e-6);
        CHECK(test::worst_error(positions_gradient, dposition) < 1e-6);
        if (first.empty()) first = tokens_gradient;
        CHECK(tokens_gradient == first);
        std::vector<float> without(dtoken.size(), 1.0F);
        embedding_backward(pool, memory, tokens.data(), dx.data(), without.data(), nullptr, s.batch, s.T, s.C, s.vocabulary,
                           level);
        CHECK(without == first);
      }
    }
  }
}
