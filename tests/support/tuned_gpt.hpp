// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TUNED_GPT_HPP
#define CAUSEWAY_TESTS_SUPPORT_TUNED_GPT_HPP

// A small GPT whose blocks are served by simulated peers, its prompts and adapters trained by others; and the same model in
// one place, on one tape, to compare with.

#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/serving/block_server.hpp>
#include <causeway/parallel/serving/tuned_model.hpp>
#include <causeway/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/models.hpp"

namespace support {

using namespace std::chrono_literals;

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
inline void must(const causeway::result<void>& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

inline constexpr causeway::nn::gpt_options frozen_gpt{
    .layers = 6, .heads = 2, .width = 16, .context = 12, .vocabulary = 13};
inline constexpr std::int64_t tokens_each = 6, sequences_each = 4;

/// Tokens below 11, and of each `times` that plus one. `tagged`: sequences begin with a token that tells which task it is.
struct small_text {
  std::vector<std::int32_t> in, out;
  explicit small_text(std::uint64_t seed, std::int32_t times = 5, bool tagged = false) {
    causeway::rng draw{seed};
    for (std::int64_t i = 0; i < tokens_each * sequences_each; ++i) {
      in.push_back(static_cast<std::int32_t>(draw.below(11)));
      out.push_back((in.back() * times + 1) % 11);
      if (!tagged || i % tokens_each != 0) continue;
      in.back() = times == 5 ? 11 : 12;
      out.back() = -1;  // does not count
    }
  }
};
inline constexpr float mean_scale = 1.0F / (tokens_each * sequences_each);

/// With parameters away from their first values, where most gradients are small. `steps`: of training on two tasks, half
/// of the sequences with a tag that tells which.
inline causeway::nn::gpt pretrained_gpt(int steps = 0) {
  auto model = valued(causeway::nn::gpt::create(frozen_gpt));
  model.initialize(3);
  causeway::rng draw{8};
  for (std::size_t s = 0; s < model.parameters().segments().size(); ++s) {
    const auto& piece = model.parameters().segments()[s];
    for (std::int64_t i = 0; i < piece.size(); ++i) model.parameters().value(s)[i] += 0.1F * draw.normal();
  }
  causeway::optim::adamw inner;
  inner.reset(model.parameters().length());
  for (int s = 0; s < steps; ++s) {
    const small_text t{100 + static_cast<std::uint64_t>(s), s % 4 < 2 ? 5 : 3, s % 2 == 0};
    auto view = model.parameters().view();
    std::fill(view.gradients.begin(), view.gradients.end(), 0.0F);
    (void)valued(model.forward_backward(t.in, t.out, sequences_each, mean_scale, 0));
    inner.step(model.backend().pool(), view, {.learning_rate = 0.01F});
    model.parameters().touch();
  }
  return model;
}

/// Gives any part of the model its parameters.
inline causeway::stage::parameter_source parameters_from(causeway::nn::gpt& model) {
  return [&model](causeway::parameter_store& store) -> causeway::result<void> {
    auto& from = model.parameters();
    causeway::for_common_pieces(from.segments(), store.segments(), [&](const auto& a, const auto& b) {
      std::copy_n(from.values().data() + a.offset, a.size(), store.values().data() + b.offset);
    });
    return {};
  };
}

/// The model with prompts and adapters, in one place: what nobody cuts.
class unsplit_tuning {
 public:
  unsplit_tuning(causeway::nn::gpt& model, const causeway::parallel::tuning_options& o)
      : model_{model},
        prompts_{o.prompts.value_or(causeway::parallel::prompt_options{.rows = 0, .deep = false})},
        adapters_{o.adapters},
        family_{frozen_gpt, whole_} {
    whole_.allocate();
    must(parameters_from(model)(whole_));
  }

  /// Values and gradients are laid out as tuned_model's parameters.
  double run(causeway::parameter_store& store, const small_text& t, bool training) {
    namespace ag = causeway::autograd;
    auto tape = model_.make_tape();
    ag::recording_scope scope{tape, training};
    const std::int64_t rows = prompts_.rows;
    const causeway::nn::pass<causeway::kernels::cpu_backend> p{&whole_, nullptr, sequences_each, rows + tokens_each,
                                                               0,       0.0F};
    auto alone = p;
    alone.T = tokens_each;
    auto x = family_.embed(tape, alone, t.in);
    if (rows > 0) {
      x = ag::prepend_prompts(tape, x, {store.value(0), nullptr, store.gradient(0), rows, frozen_gpt.width},
                              sequences_each);
    }
    take_factors(store);
    for (std::int64_t l = 0; l < frozen_gpt.layers; ++l) x = block(tape, p, store, l, x);
    if (rows > 0) x = ag::drop_prompts(tape, x, rows, sequences_each);
    const double loss = ag::cross_entropy(tape, family_.finish(tape, alone, x), p[family_.head()], t.out, mean_scale);
    if (training) tape.backward();
    if (training) give_factors(store);
    return loss;
  }

 private:
  using tape_type = causeway::autograd::tape<causeway::kernels::cpu_backend>;

  causeway::autograd::variable block(tape_type& tape, causeway::nn::pass<causeway::kernels::cpu_backend> p,
                                     causeway::parameter_store& store, std::int64_t l, causeway::autograd::variable x) {
    const std::int64_t at = l * prompts_.rows * frozen_gpt.width;
    if (prompts_.deep) {
      x = causeway::autograd::add_prompts(
          tape, x, {store.value(1) + at, nullptr, store.gradient(1) + at, prompts_.rows, frozen_gpt.width}, sequences_each);
    }
    causeway::nn::block_adapters beside;
    for (std::size_t s = 0; s < store.segments().size(); ++s) {
      const auto& [name, kind, rows, columns, offset, of_block] = store.segments()[s];
      if (of_block != l) continue;
      const auto map = std::find_if(causeway::nn::linear_map_names.begin(), causeway::nn::linear_map_names.end(),
                                    [&n = name](auto one) { return n.find("." + std::string{one} + ".") != n.npos; });
      auto& pair = beside.of.at(static_cast<std::size_t>(map - causeway::nn::linear_map_names.begin()));
      if (name.back() == 'A') pair.down = {store.value(s), nullptr, store.gradient(s), rows, columns};
      if (name.back() == 'B') {
        pair.up = {scaled_.data() + offset, nullptr, d_scaled_.data() + offset, rows, columns};
      }
    }
    p.adapters = &beside;
    return family_.block(tape, p, static_cast<std::size_t>(l), x);
  }

  [[nodiscard]] float factor() const { return adapters_ ? adapters_->alpha / static_cast<float>(adapters_->rank) : 1.0F; }
  /// alpha/rank times B, and the gradient of B from that of it.
  void take_factors(causeway::parameter_store& store) {
    scaled_.assign(store.values().begin(), store.values().end());
    d_scaled_.assign(scaled_.size(), 0.0F);
    for (float& v : scaled_) v *= factor();
  }
  void give_factors(causeway::parameter_store& store) {
    for (const auto& s : store.segments()) {
      if (s.name.find("lora_B") == s.name.npos) continue;
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
        store.gradients()[static_cast<std::size_t>(i)] += factor() * d_scaled_[static_cast<std::size_t>(i)];
      }
    }
  }

  causeway::nn::gpt& model_;
  causeway::parallel::prompt_options prompts_;
  std::optional<causeway::nn::adapter_options> adapters_;
  std::vector<float> scaled_, d_scaled_;
  causeway::parameter_store whole_;
  causeway::nn::gpt_family family_;
};

/// Frozen blocks that take time.
class timed_blocks {
 public:
  using blocks_type = causeway::stage::frozen_blocks<causeway::nn::gpt_family>;
  timed_blocks(blocks_type blocks, causeway::sim::process& p, causeway::duration each)
      : blocks_{std::move(blocks)}, process_{&p}, each_{each} {}
  [[nodiscard]] std::int64_t layers() const { return blocks_.layers(); }
  [[nodiscard]] std::int64_t width() const { return blocks_.width(); }
  [[nodiscard]] std::int64_t context() const { return blocks_.context(); }
  [[nodiscard]] causeway::nn::map_sizes maps() const { return blocks_.maps(); }
  [[nodiscard]] causeway::nn::block_range held() const { return blocks_.held(); }
  [[nodiscard]] std::uint64_t agreement() const { return blocks_.agreement(); }
  [[nodiscard]] causeway::thread_pool& pool() { return blocks_.pool(); }
  [[nodiscard]] causeway::parameter_store& parameters() { return blocks_.parameters(); }
  causeway::result<void> hold(causeway::nn::block_range r) { return blocks_.hold(r); }
  causeway::result<void> forward(const causeway::stage::span_pass& p, std::span<float> y) {
    process_->compute(each_ * p.rows() * p.blocks.size());
    return blocks_.forward(p, y);
  }
  causeway::result<void> backward(const causeway::stage::span_pass& p, std::span<const float> dy, std::span<float> dx,
                                  std::span<float> d_tuned) {
    process_->compute(2 * each_ * p.rows() * p.blocks.size());
    return blocks_.backward(p, dy, dx, d_tuned);
  }

 private:
  blocks_type blocks_;
  causeway::sim::process* process_;
  causeway::duration each_;
};
static_assert(causeway::stage::BlockSpan<timed_blocks>);

/// A world with a server on each of the first hosts; clients come after them.
template <class Codec = causeway::stage::plain>
class served_gpt {
 public:
  using model_type = causeway::parallel::tuned_model<causeway::nn::gpt_family, Codec>;
  using server_type = causeway::parallel::block_server<timed_blocks, Codec>;
  using fabric_wrap = std::function<std::shared_ptr<causeway::net::fabric>(std::shared_ptr<causeway::net::fabric>)>;

  explicit served_gpt(causeway::nn::gpt& model, causeway::duration latency = 5ms)
      : world{{.seed = 1, .link = {.latency = latency}}}, model_{model} {}

  /// A server that dials the one before it. Changes of the defaults are `change`'s.
  std::uint32_t add_server(const std::function<void(causeway::parallel::block_server_options&)>& change,
                           causeway::duration each = 10us) {
    const std::uint32_t host = world.add_host({});
    causeway::parallel::block_server_options o;
    o.run = 5, o.blocks = 2, o.seed = host;
    if (host > 0) o.dial.push_back("host-" + std::to_string(host - 1) + ":1");
    change(o);
    world.boot(host, [this, host, o, each](causeway::sim::process& p) {
      auto blocks = valued(timed_blocks::blocks_type::create(frozen_gpt, parameters_from(model_)));
      server_type server{p.make_fabric(host + 1), o, timed_blocks{std::move(blocks), p, each}, Codec{}, p.log()};
      must(server.open());
      struct listed {
        std::map<std::uint32_t, server_type*>& all;
        std::uint32_t host;
        ~listed() { all.erase(host); }
      } const while_it_lives{servers, host};
      servers[host] = &server;
      const auto outcome = server.serve([] { return false; });
      if (!outcome && outcome.error().code != causeway::errc::cancelled) throw std::runtime_error{outcome.error().text()};
    });
    return host;
  }
  std::uint32_t add_server(std::int64_t first, std::int64_t blocks, causeway::duration each = 10us) {
    return add_server([&](auto& o) { o.first = first, o.blocks = blocks; }, each);
  }

  struct client_options {
    causeway::parallel::tuning_options tuning{.prompts = causeway::parallel::prompt_options{.rows = 2, .deep = true}};
    causeway::parallel::block_client_options client{.run = 5, .most_rows = 16, .patience = 20s, .give_up = 60s};
    fabric_wrap wrap = [](auto f) { return f; };
  };

  /// A client that begins when all blocks are served.
  std::uint32_t add_client(const client_options& o, std::function<void(causeway::sim::process&, model_type&)> use) {
    const std::uint32_t host = world.add_host({});
    ++unfinished_;
    world.boot(host, [this, host, o, use = std::move(use)](causeway::sim::process& p) {
      auto client = o.client;
      if (client.dial.empty()) client.dial.push_back("host-0:1");
      auto model = valued(model_type::create(frozen_gpt, o.tuning, parameters_from(model_),
                                             o.wrap(p.make_fabric(1000 + host)), client, Codec{}, p.log()));
      if (!valued(model.client().wait_for_blocks(p.now() + 60s))) throw std::runtime_error{"blocks are served by nobody"};
      use(p, model);
      --unfinished_;
    });
    return host;
  }

  /// Until all clients are through; whether they are.
  bool run(int longest = 2000) {
    for (int s = 0; s < longest && unfinished_ > 0; ++s) world.run_for(1s);
    return unfinished_ == 0;
  }

  std::map<std::uint32_t, server_type*> servers;  // that live
  causeway::sim::world world;

 private:
  causeway::nn::gpt& model_;
  int unfinished_ = 0;
};

/// One step of AdamW on what is trained.
template <class Model>
double tuned(Model& model, causeway::optim::adamw& inner, const small_text& t, float rate = 0.05F) {
  auto view = model.parameters().view();
  std::fill(view.gradients.begin(), view.gradients.end(), 0.0F);
  const double loss = valued(model.forward_backward(t.in, t.out, sequences_each, mean_scale, 0));
  inner.step(model.backend().pool(), view, {.learning_rate = rate});
  model.parameters().touch();
  return loss;
}

/// What a pass says where `spoil(values)` has changed what is trained; none: it went well.
template <class Model, class Spoil>
std::optional<causeway::errc> error_of(Model& model, Spoil&& spoil) {
  const small_text t{1};
  model.initialize(1);
  spoil(model.parameters().values());
  const auto outcome = model.evaluate(t.in, t.out, sequences_each);
  return outcome ? std::nullopt : std::optional{outcome.error().code};
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TUNED_GPT_HPP
