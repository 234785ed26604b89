// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_HPP

// A peer that computes frozen blocks for whoever asks (Petals: Borzunov et al., 2022). It keeps nothing of its clients
// between two requests: what is trained, and the optimizer, are theirs. It takes the blocks where the swarm is worst off,
// and others when that changes.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/serving/block_messages.hpp>
#include <causeway/parallel/serving/block_request_handler.hpp>
#include <causeway/parallel/serving/block_rpc_codec.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/block_choice.hpp>
#include <causeway/stage/frozen_blocks.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Threading: `serve` is called by one thread; events come as the fabric has them. Memory: the blocks, the rows of
/// `most_held` requests, and answers that clients are slow to take.
template <stage::BlockSpan Blocks, stage::ActivationCodec Codec = stage::plain>
class block_server final : private block_request_handler {
 public:
  block_server(std::shared_ptr<net::fabric> fabric, const block_server_options& options, Blocks blocks,
               Codec codec = Codec{}, log_sink log = {})
      : block_request_handler{std::move(fabric), options, limits_of(options, blocks, codec), std::move(log)},
        blocks_{std::move(blocks)},
        codec_{std::move(codec), blocks_.width(), blocks_.maps()},
        mailbox_{*this->fabric_},
        random_{options.seed, 0x626C6B73U} {}
  ~block_server() override { fabric_->attach(nullptr); }

  /// Begins to listen. errc::invalid_argument for a number of blocks that the model does not have.
  result<void> open() {
    const std::int64_t first = options_.first.value_or(0);
    if (options_.blocks < 1 || first < 0 || first + options_.blocks > blocks_.layers() || options_.most_rows < 1 ||
        options_.most_requests < 1 || options_.most_held < 1) {
      return fail(errc::invalid_argument, "block_server",
                  std::to_string(options_.blocks) + " blocks from " + std::to_string(first) + " of a model with " +
                      std::to_string(blocks_.layers()) + ", or a limit that is 0");
    }
    listen();
    fabric_->locked(
        [this] { look_at_ = fabric_->now() + (options_.first ? duration{0} : about(2 * options_.look_around)); });
    return {};
  }

  /// Chooses blocks and serves them, until `stopped`, asked with the fabric's lock held, says so, or the deadline passes;
  /// both are no error. errc::cancelled: the peer was asked to stop. Errors of Blocks::hold.
  result<void> serve(const std::function<bool()>& stopped, time_point deadline = no_deadline) {
    for (;;) {
      bool stop = false;
      const auto ready = [&] { return (stop = stopped()) || !ready_.empty() || may_receive() || mailbox_.any_done(); };
      CAUSEWAY_ASSIGN(const bool happened, fabric_->block(ready, std::min({deadline, look_at_, late_at_})));
      if (stop) return {};
      take_in();
      if (!ready_.empty()) compute_next();
      bool due = false, over = false;
      fabric_->locked([&] {
        due = fabric_->now() >= look_at_;
        over = !happened && fabric_->now() >= deadline;
      });
      if (over) return {};
      if (due) CAUSEWAY_TRY(choose_blocks());
    }
  }

  /// Call between two `serve`.
  [[nodiscard]] Blocks& blocks() noexcept { return blocks_; }
  /// Requests that were answered with rows, and with a refusal.
  [[nodiscard]] std::uint64_t answered() const noexcept { return answered_; }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
  /// Times that it took other blocks.
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

 private:
  struct ready_request {
    admitted_request request;
    shared_bytes bytes;
  };

  static model_limits limits_of(const block_server_options& o, const Blocks& b, const Codec& codec) {
    return {span_run(o.run, b.agreement(), codec),
            b.layers(),
            b.context(),
            b.width(),
            b.maps(),
            block_rpc_codec<Codec>::most_bytes_a_row(codec, b.width())};
  }

  [[nodiscard]] bool may_receive() const {
    return !incoming_.empty() && mailbox_.receives() + ready_.size() < options_.most_held;
  }

  void take_in() {
    std::vector<admitted_request> broken;
    auto arrived = mailbox_.collect(&broken);
    std::vector<admitted_request> next;
    fabric_->locked([&] {
      const time_point now = fabric_->now();
      for (const admitted_request& r : broken) finished(r);
      send_late_away(now);
      std::erase_if(ready_, [this](const auto& r) { return !this->connected(r.request); });
      for (auto& a : arrived) {
        if (connected(a.what)) ready_.push_back({a.what, std::move(a.bytes)});
      }
      while (!incoming_.empty() && mailbox_.receives() + ready_.size() + next.size() < options_.most_held) {
        next.push_back(incoming_.front());
        next.back().since = now;
        late_at_ = std::min(late_at_, now + options_.patience);
        incoming_.pop_front();
      }
    });
    for (const admitted_request& r : next) {
      mailbox_.expect(r.link, block_wire::request_id(r.what.number), r, codec_.request_bytes(r.what));
    }
  }

  /// Who does not send the rows of its request takes a place for nothing.
  void send_late_away(time_point now) {
    late_at_ = no_deadline;
    mailbox_.each_expected([&](net::peer_index link, const admitted_request& r) {
      if (!connected(r)) return;
      if (r.since + options_.patience <= now) return send_away(link, "the rows of its request do not come");
      late_at_ = std::min(late_at_, r.since + options_.patience);
    });
  }

  void compute_next() {
    const ready_request next = std::move(ready_.front());
    ready_.pop_front();
    const block_wire::request& what = next.request.what;
    const bool here = what.blocks.first >= blocks_.held().first && what.blocks.last <= blocks_.held().last;
    time_point begin, end;
    fabric_->locked([&] { begin = fabric_->now(); });
    auto answer = here ? answer_to(what, *next.bytes) : result<shared_bytes>{refusal(block_wire::not_here)};
    const bool works = answer && (*answer)->size() > 1;
    fabric_->locked([&] {
      end = fabric_->now();
      finished(next.request);
      if (!answer) send_away(next.request.link, answer.error().message);
      if (works) measured(seconds(end - begin) / what.work());
    });
    ++(works ? answered_ : refused_);
    if (!answer) return;
    if (mailbox_.sends_to(next.request.link) < 2 * std::size_t{options_.most_requests}) {
      mailbox_.send(next.request.link, block_wire::answer_id(what.number), std::move(*answer));
    } else {
      fabric_->locked([&] { send_away(next.request.link, "it does not take its answers"); });
    }
  }

  /// Errors: the client broke the rules.
  result<shared_bytes> answer_to(const block_wire::request& what, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const span_question q, codec_.read_request(blocks_.pool(), what, bytes));
    const stage::span_pass pass{what.blocks, what.sequences, what.tokens, what.tuning(), q.x, q.tuned};
    std::vector<float> out(q.x.size()), d_tuned(what.backward != 0 ? q.tuned.size() : 0);
    const auto outcome = what.backward != 0 ? blocks_.backward(pass, q.dy, out, d_tuned) : blocks_.forward(pass, out);
    if (!outcome) {
      log_(severity::warning, outcome.error().text());
      return refusal(block_wire::not_here);
    }
    if (!stage::all_finite(blocks_.pool(), out) || !stage::all_finite(blocks_.pool(), d_tuned))
      return refusal(block_wire::not_finite);
    return codec_.write_answer(blocks_.pool(), what, out, d_tuned);
  }

  static shared_bytes refusal(std::byte why) { return std::make_shared<const std::vector<std::byte>>(1, why); }

  void measured(double seconds) { seconds_ = seconds_ > 0 ? 0.7 * seconds_ + 0.3 * seconds : seconds; }

  // ---- which blocks

  result<void> choose_blocks() {
    std::optional<std::int64_t> first;
    bool begins = false;
    fabric_->locked([&] {
      begins = serving_.size() == 0;
      const auto spans = this->spans();
      if (begins) {
        const auto sums = stage::block_throughputs(spans, blocks_.layers());
        first = options_.first ? *options_.first : stage::worst_served(sums, options_.blocks);
      } else {
        first = stage::better_place(spans, fabric_->id(), blocks_.layers(), options_.quality);
      }
      look_at_ = options_.first ? no_deadline : fabric_->now() + about(options_.rebalance_every);
    });
    if (!first) return {};
    return move_to({*first, *first + options_.blocks}, begins);
  }

  /// Not all at once: servers that look at the same moment would go to the same place.
  [[nodiscard]] duration about(duration d) {
    return std::chrono::duration_cast<duration>(d * (0.5 + static_cast<double>(random_.uniform())));
  }

  result<void> move_to(nn::block_range range, bool begins) {
    fabric_->locked([this] { serving_ = {}; });  // announces nothing while it loads
    const auto outcome = blocks_.hold(range);
    if (!outcome && begins) return outcome;
    if (outcome && begins) try_out();
    if (outcome && !begins) ++moves_;
    if (!outcome) log_(severity::warning, "it keeps its blocks: " + outcome.error().text());
    fabric_->locked([this] {
      serving_ = blocks_.held();
      announce();
    });
    return {};
  }

  /// How quick it is, before anybody asks.
  void try_out() {
    const std::int64_t rows = std::min<std::int64_t>({64, options_.most_rows, blocks_.context()});
    const std::vector<float> x(static_cast<std::size_t>(rows * blocks_.width()), 0.01F);
    std::vector<float> y(x.size());
    time_point begin, end;
    fabric_->locked([&] { begin = fabric_->now(); });
    const auto outcome = blocks_.forward({.blocks = blocks_.held(), .tokens = rows, .x = x}, y);
    fabric_->locked([&] {
      end = fabric_->now();
      if (outcome) measured(seconds(end - begin) / static_cast<double>(rows * blocks_.held().size()));
    });
  }

  Blocks blocks_;
  block_rpc_codec<Codec> codec_;
  tensor_mailbox<admitted_request> mailbox_;
  rng random_;
  std::deque<ready_request> ready_;
  time_point look_at_{}, late_at_ = no_deadline;
  std::uint64_t answered_ = 0, refused_ = 0, moves_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_HPP
