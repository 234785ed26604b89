// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_MIXED_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_MIXED_CASE_HPP

// One run of peers whose models are on an engine and of peers on the processor: what each of them came to, and its state
// between.

#include <causeway/comm/periodic.hpp>
#include <causeway/cuda/adamw.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/trainer.hpp>

#include "cuda/model_case.hpp"
#include "support/cluster.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

extern template class causeway::nn::language_model<causeway::nn::gpt_family>;  // in mixed_run.cpp
extern template class causeway::nn::language_model<causeway::nn::gpt_family, causeway::cuda::backend>;

namespace causeway_test::mixed_case {

using namespace causeway;

inline constexpr std::uint32_t local_steps = 3;

struct outcome {
  std::vector<std::vector<float>> rounds;  ///< the parameters after each committed round
  std::vector<std::vector<float>> shared;  ///< the policy's shared parameters then, where it has any
  std::vector<std::uint64_t> hashes;
  std::vector<double> losses;
  std::optional<error> failed;
};

/// Numbers, vectors of them and what has `serialize`, one after another.
struct plain_archive {
  std::vector<std::byte> bytes;
  std::size_t at = 0;
  bool writing = true;

  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

 private:
  void move(void* p, std::size_t size) {
    if (writing) {
      bytes.insert(bytes.end(), static_cast<const std::byte*>(p), static_cast<const std::byte*>(p) + size);
    } else {
      std::memcpy(p, bytes.data() + at, size);
      at += size;
    }
  }
  template <class T>
  void visit(T& value) {
    if constexpr (requires { value.serialize(*this); }) {
      value.serialize(*this);
    } else {
      static_assert(std::is_arithmetic_v<T>);
      move(&value, sizeof value);
    }
  }
  template <class T, class Memory>
  void visit(std::vector<T, Memory>& values) {
    std::uint64_t size = values.size();
    move(&size, sizeof size);
    values.resize(size);
    for (T& value : values) visit(value);
  }
};

struct plan {
  std::uint64_t from = 0, until = 9;         ///< steps
  plain_archive* state = nullptr;            ///< to go on from, where `from` is not 0; left there at the end
  std::function<void(bool begins)> watch{};  ///< around each step
  bool finishes = false;                     ///< the training ends then; the parameters are those of one more round
};

/// Nine steps, three rounds, or some of them.
template <class Model, class Inner, class Comm>
outcome train(std::uint32_t peer, environment env, Model model, Inner inner, Comm comm, const plan& p = {}) {
  outcome got;
  auto t = make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{3e-3F}}, std::move(comm),
                        std::move(inner));
  const auto visit_state = [&](plain_archive& ar) {
    for (float& value : t.model().parameters().values()) ar(value);
    t.for_each_state([&](const std::string&, std::uint32_t, auto& object) { ar(object); });
  };
  if (p.from > 0) {
    p.state->writing = false;
    visit_state(*p.state);
    t.restored();
  }
  if (const auto started = t.start(); !started) {
    got.failed = started.error();
    return got;
  }
  for (std::uint64_t s = p.from; s < p.until; ++s) {
    std::vector<std::int32_t> tokens(2 * 17);
    rng draw{s * 10 + peer};
    for (auto& token : tokens) token = static_cast<std::int32_t>(draw.below(5));
    const std::vector<std::int32_t> inputs(tokens.begin(), tokens.begin() + 32), targets(tokens.begin() + 2, tokens.end());
    if (p.watch) p.watch(true);
    const auto step = t.step({inputs, targets, 2});
    if (p.watch) p.watch(false);
    if (!step) {
      got.failed = step.error();
      return got;
    }
    got.losses.push_back(step->loss);
    const auto values = t.context().parameters();
    if (step->committed_round) {
      got.rounds.emplace_back(values.begin(), values.end());
      got.hashes.push_back(t.context().state_hash());
      if constexpr (requires { t.comm().shared_parameters(); }) {
        const auto shared = t.comm().shared_parameters();
        got.shared.emplace_back(shared.begin(), shared.end());
      }
    }
  }
  if (p.finishes) {
    if (const auto done = t.finish(); !done) got.failed = done.error();
    const auto values = t.context().parameters();
    got.rounds.emplace_back(values.begin(), values.end());
  }
  if (p.state != nullptr) {
    *p.state = {};
    visit_state(*p.state);
  }
  return got;
}

/// A peer on the processor.
template <class Outer, class Codec>
outcome train_here(std::uint32_t peer, environment env, const plan& p = {}) {
  return train(peer, std::move(env), std::move(*nn::gpt::create(golden_gpt())), optim::adamw{},
               comm::periodic<Outer, Codec>{{.local_steps = local_steps}}, p);
}
/// A peer whose model is on an engine.
template <class Outer, class Codec>
outcome train_there(std::uint32_t peer, environment env, std::shared_ptr<cuda::engine> engine, Outer outer, Codec codec,
                    const plan& p = {}) {
  auto model = nn::basic_gpt<cuda::backend>::create(golden_gpt(), cuda::backend{engine});
  return train(peer, std::move(env), std::move(*model), cuda::adamw{engine},
               comm::periodic<Outer, Codec>{{.local_steps = local_steps}, std::move(outer), std::move(codec)}, p);
}

inline void check_equal(const outcome& a, const outcome& b, std::size_t rounds = 3) {
  REQUIRE(a.rounds.size() == rounds);
  CHECK(a.rounds == b.rounds);
  CHECK(a.hashes == b.hashes);
}

}  // namespace causeway_test::mixed_case

#endif  // CAUSEWAY_TESTS_CUDA_MIXED_CASE_HPP
