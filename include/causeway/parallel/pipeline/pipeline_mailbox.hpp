// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_MAILBOX_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_MAILBOX_HPP

// The boundary tensors of one pass through a pipeline, on their way to and from the neighbouring stages. Receives are
// posted some micro-batches ahead, so that what arrives while a stage computes is there when it is needed; sends run on
// while the stage computes. Leaving the scope cancels what is under way.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/pipeline/embedding_base.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// How boundary tensors of a batch travel. Equal on all peers of the pipeline.
struct boundary_options {
  std::uint32_t channel = 0;  ///< two consecutive ones, for boundaries: forward, backward
  std::uint64_t step = 0;
  std::uint64_t seed = 0;    ///< equal on both sides of a boundary
  std::uint32_t window = 2;  ///< receives posted ahead, for each source
  time_point deadline = no_deadline;
  const embedding_base* base = nullptr;  ///< where the codec uses one
  /// Micro-batches that go different ways: who has which virtual stage, [micro-batch][stage]: rank in the view. None: the
  /// ranks of the view are those of the schedule. Between stages of one rank nothing is sent.
  const std::vector<std::vector<std::uint32_t>>* routes = nullptr;
};

/// What all boundary tensors of a pass have in common.
struct mailbox_setup {
  thread_pool& pool;
  const plan::schedule& schedule;
  const batch& whole;      ///< the batch that is cut into the schedule's micro-batches
  std::int64_t width = 0;  ///< of the model
  std::uint32_t rank = 0;  ///< of the schedule
  boundary_options boundaries{};
};

/// The mailbox of one rank. One thread.
template <class Codec>
class pipeline_mailbox {
 public:
  pipeline_mailbox(collective::group_view& view, Codec& codec, const mailbox_setup& setup)
      : view_{view}, codec_{codec}, setup_{setup} {
    for (std::uint32_t chunk = 0; chunk < setup.schedule.chunks; ++chunk) {
      for (const plan::work kind : {plan::work::forward, plan::work::backward}) {
        lines_.push_back({.way = way_of(kind), .edge = edge_of(setup.rank, kind, chunk)});
      }
    }
    for (const plan::operation& op : setup.schedule.orders[setup.rank]) {
      if (has_input(op)) lines_[line_of(op)].due.push_back(op.micro_batch);
    }
    for (line& l : lines_) top_up(l);
  }
  pipeline_mailbox(const pipeline_mailbox&) = delete;
  pipeline_mailbox& operator=(const pipeline_mailbox&) = delete;

  /// Whether what `op` gives goes to another stage of this rank: then it is not for the mailbox.
  [[nodiscard]] bool stays(const plan::operation& op) const {
    return plan::target_of(setup_.schedule, setup_.rank, op) && target_of(op) == view_.self();
  }

  /// Whether `op` has an input from another rank.
  [[nodiscard]] bool has_input(const plan::operation& op) const {
    const auto source = plan::source_of(setup_.schedule, setup_.rank, op);
    return source && rank_of(plan::virtual_stage(setup_.schedule, *source), op.micro_batch) != view_.self();
  }

  /// Whether the input of `op` from another rank is there; true if it needs none.
  [[nodiscard]] bool arrived(const plan::operation& op) const {
    if (!has_input(op)) return true;
    const line& l = lines_[line_of(op)];
    return l.is_next(op.micro_batch) && l.expected.front().op.done();
  }

  /// Waits for the input of `op`, without taking it.
  result<void> wait_for(const plan::operation& op) {
    line& l = lines_[line_of(op)];
    CAUSEWAY_EXPECT(l.is_next(op.micro_batch));
    return finish(l.expected.front());
  }

  /// The input of `op`, decoded into `values`. Inputs of one kind and chunk are taken in the schedule's order.
  result<void> take(const plan::operation& op, std::span<float> values) {
    line& l = lines_[line_of(op)];
    CAUSEWAY_TRY(wait_for(op));
    transfer got = std::move(l.expected.front());
    l.expected.pop_front();
    ++l.taken;
    auto c = crossing_of(l.way, l.edge, op.micro_batch);
    CAUSEWAY_TRY(add_base(c, op.micro_batch));
    auto outcome = codec_.decode(setup_.pool, c, std::span{got.bytes}.first(got.moved), values);
    spare_.push_back(std::move(got.bytes));
    top_up(l);
    const std::string from = "rank " + std::to_string(source_of(l, op.micro_batch));
    if (!outcome && outcome.error().where.empty()) outcome.error().where = from;
    if (outcome && !stage::all_finite(setup_.pool, values)) return not_finite(from, op, "it sent");
    return outcome;
  }

  /// Sends the output of `op`. errc::non_finite where it is not: its input was, so it was spoilt here.
  result<void> send(const plan::operation& op, std::span<const float> values) {
    if (!stage::all_finite(setup_.pool, values)) return not_finite("this stage", op, "it came to");
    auto c = crossing_of(way_of(op.kind), sent_edge_of(op), op.micro_batch);
    CAUSEWAY_TRY(add_base(c, op.micro_batch));
    transfer p{.bytes = buffer(codec_.most_bytes(c))};
    CAUSEWAY_ASSIGN(p.moved, codec_.encode(setup_.pool, c, values, p.bytes));
    CAUSEWAY_TRY(reap(false));
    sent_.push_back(std::move(p));
    transfer& last = sent_.back();
    const auto bytes = std::span<const std::byte>{last.bytes}.first(last.moved);
    last.op = {view_, view_.send(target_of(op), id_of(c, op.micro_batch), bytes)};
    return {};
  }

  /// Waits until all that was sent is gone.
  result<void> flush() { return reap(true); }

 private:
  struct transfer {
    std::vector<std::byte> bytes;
    std::size_t moved = 0;
    net::scoped_operation op{};
  };
  // What comes over one boundary of one chunk.
  struct line {
    stage::direction way = stage::direction::forward;
    std::uint32_t edge = 0;
    std::vector<std::uint32_t> due{};  // micro-batches, in the order in which they are taken
    std::size_t taken = 0;
    std::deque<transfer> expected{};  // due[taken], due[taken + 1], ...

    [[nodiscard]] bool is_next(std::uint32_t micro_batch) const { return !expected.empty() && due[taken] == micro_batch; }
  };

  static constexpr stage::direction way_of(plan::work kind) noexcept {
    return kind == plan::work::forward ? stage::direction::forward : stage::direction::backward;
  }
  [[nodiscard]] static std::size_t line_of(const plan::operation& op) noexcept {
    return 2 * std::size_t{op.chunk} + (op.kind == plan::work::forward ? 0 : 1);
  }
  // Ranks of the view.
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t stage, std::uint32_t micro_batch) const {
    return setup_.boundaries.routes != nullptr ? (*setup_.boundaries.routes)[micro_batch][stage]
                                               : plan::place_of(setup_.schedule, stage, micro_batch).rank;
  }
  [[nodiscard]] std::uint32_t source_of(const line& l, std::uint32_t micro_batch) const {
    return rank_of(l.way == stage::direction::forward ? l.edge : l.edge + 1, micro_batch);
  }
  [[nodiscard]] std::uint32_t target_of(const plan::operation& op) const {
    const auto target = plan::target_of(setup_.schedule, setup_.rank, op);
    CAUSEWAY_EXPECT(target.has_value());
    return rank_of(plan::virtual_stage(setup_.schedule, *target), op.micro_batch);
  }
  // The boundary that the input of a kind crosses: below the stage for a forward, above it for a backward.
  [[nodiscard]] std::uint32_t edge_of(std::uint32_t rank, plan::work kind, std::uint32_t chunk) const noexcept {
    const std::uint32_t v = plan::virtual_stage(setup_.schedule, {rank, chunk});
    return kind == plan::work::forward ? v - 1 : v;
  }
  [[nodiscard]] std::uint32_t sent_edge_of(const plan::operation& op) const noexcept {
    const std::uint32_t v = plan::virtual_stage(setup_.schedule, {setup_.rank, op.chunk});
    return op.kind == plan::work::forward ? v : v - 1;
  }

  [[nodiscard]] static error not_finite(const std::string& whose, const plan::operation& op, const std::string& how) {
    return fail(errc::non_finite, whose,
                how + " values that are not finite for micro-batch " + std::to_string(op.micro_batch));
  }

  [[nodiscard]] batch piece_of(std::uint32_t micro_batch) const {
    const std::int64_t sequences = setup_.whole.sequences / setup_.schedule.micro_batches;
    return setup_.whole.slice(micro_batch * sequences, sequences);
  }
  [[nodiscard]] stage::crossing crossing_of(stage::direction way, std::uint32_t edge, std::uint32_t micro_batch) const {
    const batch piece = piece_of(micro_batch);
    return {.edge = edge,
            .way = way,
            .rows = piece.tokens(),
            .width = setup_.width,
            .sequences = piece.sequences,
            .samples = piece.samples,
            .seed = mix(setup_.boundaries.seed, setup_.boundaries.step,
                        mix(edge, static_cast<std::uint64_t>(way), micro_batch))};
  }
  // The rows live until the next call.
  result<void> add_base(stage::crossing& c, std::uint32_t micro_batch) {
    return setup_.boundaries.base == nullptr ? result<void>{}
                                             : setup_.boundaries.base->add_to(c, setup_.pool, piece_of(micro_batch), base_);
  }
  [[nodiscard]] net::message_id id_of(const stage::crossing& c, std::uint32_t micro_batch) const {
    const std::uint32_t channel = setup_.boundaries.channel + static_cast<std::uint32_t>(c.way);
    return {.channel = collective::numbered(channel, c.edge),
            .step = (setup_.boundaries.step << most_micro_batch_bits) | micro_batch};
  }

  void top_up(line& l) {
    while (l.expected.size() < setup_.boundaries.window && l.taken + l.expected.size() < l.due.size()) {
      const std::uint32_t m = l.due[l.taken + l.expected.size()];
      const auto c = crossing_of(l.way, l.edge, m);
      l.expected.push_back({.bytes = buffer(codec_.most_bytes(c))});
      l.expected.back().op = {view_, view_.receive(source_of(l, m), id_of(c, m), l.expected.back().bytes)};
    }
  }

  [[nodiscard]] std::vector<std::byte> buffer(std::size_t bytes) {
    std::vector<std::byte> b;
    if (!spare_.empty()) {
      b = std::move(spare_.back());
      spare_.pop_back();
    }
    b.resize(bytes);
    return b;
  }

  result<void> finish(transfer& p) {
    if (!p.op.started()) return {};
    CAUSEWAY_ASSIGN(p.moved, p.op.wait(setup_.boundaries.deadline));
    return {};
  }

  result<void> reap(bool all) {
    while (!sent_.empty() && (all || sent_.front().op.done())) {
      CAUSEWAY_TRY(finish(sent_.front()));
      spare_.push_back(std::move(sent_.front().bytes));
      sent_.pop_front();
    }
    return {};
  }

  collective::group_view& view_;
  Codec& codec_;
  mailbox_setup setup_;
  std::deque<line> lines_;  // [chunk]: forward, backward; a deque moves no operations that are under way
  std::deque<transfer> sent_;
  std::vector<std::vector<std::byte>> spare_;
  std::vector<float> base_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_MAILBOX_HPP
