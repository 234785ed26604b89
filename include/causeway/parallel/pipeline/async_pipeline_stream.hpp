// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STREAM_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STREAM_HPP

// One rank's part of an endless stream of micro-batches: the forward of the newest, the backward of the oldest in flight,
// and all that lives between the two. An operation that failed can be asked for again and goes on where it stopped.

#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/parallel/pipeline/async_pipeline_mailbox.hpp>
#include <causeway/parallel/pipeline/async_pipeline_stash.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What a rank's stream is made for.
struct stream_setup {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t pieces = 1;      ///< micro-batches of a step
  std::uint32_t late = 1;        ///< micro-batches that the delay of the rank before is longer
  std::uint64_t first_step = 0;  ///< the step whose first micro-batch has the number 0
  nn::block_range blocks;
  stream_shape shape;
  float grad_scale = 1;  ///< of the last rank's losses
  bool stashing = true;

  /// Micro-batches between a forward and its backward on rank `r`.
  [[nodiscard]] std::uint64_t delay(std::uint32_t r) const noexcept { return std::uint64_t{ranks - 1 - r} * late; }
};

/// What a policy keeps of a stream without knowing the model: its end.
class any_stream {
 public:
  any_stream() = default;
  any_stream(const any_stream&) = delete;
  any_stream& operator=(const any_stream&) = delete;
  virtual ~any_stream() = default;
};

/// One thread. The model, whose memory it uses, must outlive it.
template <StageModel M, class Codec>
class async_stream final : public any_stream {
 public:
  async_stream(collective::group_view view, const typename async_pipeline_mailbox<Codec>::options& mailbox,
               const stream_setup& setup)
      : setup_{setup}, mailbox_{std::move(view), mailbox} {}

  [[nodiscard]] const stream_setup& setup() const noexcept { return setup_; }
  /// Where the mailbox keeps what it sent: see there. `taken` by the neighbours, as theirs say of themselves.
  void go_on(collective::group_view view, const std::array<std::uint64_t, 2>& taken) {
    mailbox_.go_on(std::move(view), taken);
  }
  [[nodiscard]] std::uint64_t taken(stage::direction way) const noexcept { return mailbox_.taken(way); }
  /// How long the waits that begin from now on may take.
  void deadline(time_point at) noexcept { mailbox_.deadline(at); }
  /// Micro-batches whose backward is still to come.
  [[nodiscard]] std::size_t in_flight() const noexcept { return units_.size(); }
  [[nodiscard]] std::size_t stashed() const noexcept { return stash_.size(); }

  /// Whether the stream ends with the step of the newest forward, as the first rank said with it.
  [[nodiscard]] bool ends() const noexcept { return ends_; }

  /// The forward of micro-batch `number`, which is `piece`: takes its input, computes, sends its output. `ends`: the first
  /// rank's word to all others, see there; on these it says nothing.
  result<void> forward(M& model, Codec& codec, std::uint64_t number, const batch& piece, std::uint64_t dropout,
                       bool ends = false) {
    if (lost_) return *lost_;
    thread_pool& pool = model.backend().pool();
    post_forwards(codec, number);
    if (units_.empty() || units_.back().place.number != number) {
      CAUSEWAY_TRY(take_input(model, codec, piece, ends));
      CAUSEWAY_TRY(compute(model, number, piece, dropout));
    }
    unit& u = units_.back();
    if (u.pass.output.value) {
      CAUSEWAY_TRY(mailbox_.send(codec, pool, line(stage::direction::forward, true), u.place, u.samples,
                                 u.pass.output.value.template span<float>(), ends_ ? 1.0 : 0.0));
      u.pass.output.value.reset();  // the backward needs only its slot
      mailbox_.expect(codec, line(stage::direction::backward, false), u.place);
    }
    return mailbox_.look_back(stage::direction::forward);
  }

  /// The backward of the oldest micro-batch in flight: takes the gradient of its output, computes, sends that of its
  /// input. Gives its loss, a sum over tokens. After an error gradients may be those of the micro-batch already.
  result<double> backward(M& model, Codec& codec) {
    if (lost_) return *lost_;
    CAUSEWAY_EXPECT(!units_.empty());
    unit& u = units_.front();
    thread_pool& pool = model.backend().pool();
    if (!u.done) {
      if (!last() && !u.d_output) CAUSEWAY_TRY(take_gradient(model, codec, u));
      CAUSEWAY_TRY(differentiate(model, u));
    }
    if (u.d_input) {
      CAUSEWAY_TRY(mailbox_.send(codec, pool, line(stage::direction::backward, true), u.place, u.samples,
                                 u.d_input.template span<float>(), u.pass.loss));
      u.d_input.reset();
    }
    CAUSEWAY_TRY(mailbox_.look_back(stage::direction::backward));
    const double loss = u.pass.loss;
    mailbox_.forget(stage::direction::forward, u.place.number + 1);  // whose gradient is back has arrived
    u.tape->clear();
    spare_.push_back(std::move(*u.tape));
    units_.pop_front();
    return loss;
  }

  /// The end of a stream whose micro-batches have all come back: all that was sent has left.
  result<void> end() { return mailbox_.flush(stage::direction::backward, 0); }
  /// Parameters have moved between two backwards: those of micro-batches that are back are not needed any more.
  void forget_versions() {
    stash_.forget_before(units_.empty() ? std::numeric_limits<std::uint64_t>::max() : units_.front().place.step);
  }

  /// What a neighbour takes in this same step must have left before its end, as it may be the last: all forwards, and the
  /// gradients but for those of later steps. Keeps the parameters for what is in flight.
  result<void> end_step(M& model, std::uint64_t step) {
    CAUSEWAY_TRY(mailbox_.flush(stage::direction::forward, 0));
    CAUSEWAY_TRY(mailbox_.flush(stage::direction::backward, setup_.late));
    stash_.forget_before(units_.empty() ? step + 1 : units_.front().place.step);
    if (setup_.stashing && !units_.empty() && units_.back().place.step == step) {
      stash_.keep(model.backend().pool(), step, model.parameters().values());
    }
    return {};
  }

 private:
  using tape_type = typename M::tape_type;

  struct unit {
    stream_place place;
    std::optional<tape_type> tape;
    nn::stage_pass pass;
    std::vector<std::int32_t> inputs;  // the caller's are gone when the backward comes
    std::vector<std::int32_t> targets;
    std::vector<std::uint64_t> samples;
    tensor d_output;
    tensor d_input;
    bool done = false;  // gradients are computed
  };

  [[nodiscard]] bool last() const noexcept { return setup_.rank + 1 == setup_.ranks; }

  // To the neighbour that takes (outward) or gives this way.
  [[nodiscard]] stream_line line(stage::direction way, bool outward) const noexcept {
    const bool up = (way == stage::direction::forward) == outward;  // towards the last rank
    return {way, up ? setup_.rank : setup_.rank - 1, up ? setup_.rank + 1 : setup_.rank - 1};
  }

  [[nodiscard]] stream_place place_of(std::uint64_t number) const noexcept {
    return {number, setup_.first_step + number / setup_.pieces, static_cast<std::uint32_t>(number % setup_.pieces)};
  }

  // The rank before may be `late` micro-batches further: their receives are posted before their batch is known.
  void post_forwards(Codec& codec, std::uint64_t number) {
    if (setup_.rank == 0) return;
    for (; next_posted_ <= number + setup_.late; ++next_posted_) {
      mailbox_.expect(codec, line(stage::direction::forward, false), place_of(next_posted_));
    }
  }

  result<void> take_input(M& model, Codec& codec, const batch& piece, bool ends) {
    if (setup_.rank == 0) ends_ = ends;
    if (setup_.rank == 0 || input_) return {};
    tensor values = boundary(model);
    CAUSEWAY_ASSIGN(const double word, mailbox_.take(codec, model.backend().pool(), line(stage::direction::forward, false),
                                                     piece.samples, values.template span<float>()));
    ends_ = word != 0;
    input_ = std::move(values);
    // Who sends this forward has all gradients before that of its oldest micro-batch in flight.
    const std::uint64_t in_flight = setup_.delay(setup_.rank - 1);
    const std::uint64_t number = mailbox_.taken(stage::direction::forward) - 1;
    if (number > in_flight) mailbox_.forget(stage::direction::backward, number - in_flight);
    return {};
  }

  result<void> compute(M& model, std::uint64_t number, const batch& piece, std::uint64_t dropout) {
    unit u;
    u.place = place_of(number);
    u.inputs.assign(piece.inputs.begin(), piece.inputs.end());
    u.targets.assign(piece.targets.begin(), piece.targets.end());
    u.samples.assign(piece.samples.begin(), piece.samples.end());
    u.tape.emplace(spare_tape(model));
    const nn::micro_batch b{u.inputs, u.targets, piece.sequences, setup_.grad_scale, dropout};
    CAUSEWAY_ASSIGN(u.pass, model.forward_stage(*u.tape, setup_.blocks, b, input_, nn::pass_kind::recorded));
    input_.reset();
    units_.push_back(std::move(u));
    return {};
  }

  result<void> take_gradient(M& model, Codec& codec, unit& u) {
    tensor values = boundary(model);
    CAUSEWAY_ASSIGN(u.pass.loss, mailbox_.take(codec, model.backend().pool(), line(stage::direction::backward, false),
                                               u.samples, values.template span<float>()));
    u.d_output = std::move(values);
    return {};
  }

  // With the parameters of its forward, where they are kept; else with those of now.
  result<void> differentiate(M& model, unit& u) {
    thread_pool& pool = model.backend().pool();
    const bool swapped = stash_.swap(pool, u.place.step, model.parameters().values());
    if (swapped) model.parameters().touch();
    auto d_input = model.backward_stage(*u.tape, u.pass, std::move(u.d_output));
    if (swapped) {
      stash_.swap(pool, u.place.step, model.parameters().values());
      model.parameters().touch();
    }
    if (!d_input) {
      lost_ = fail(d_input.error().code, "async_pipeline",
                   "a micro-batch in flight was lost in its backward: " + d_input.error().text() +
                       "; start again from a checkpoint");
      return *lost_;
    }
    u.d_input = std::move(*d_input);
    u.done = true;
    return {};
  }

  [[nodiscard]] tensor boundary(M& model) {
    if (!memory_) memory_.emplace(model.make_tape());
    return memory_->make(dtype::f32, {setup_.shape.rows, setup_.shape.width});
  }

  [[nodiscard]] tape_type spare_tape(M& model) {
    if (spare_.empty()) return model.make_tape();
    tape_type t = std::move(spare_.back());
    spare_.pop_back();
    return t;
  }

  stream_setup setup_;
  async_pipeline_mailbox<Codec> mailbox_;
  weight_stash stash_;
  std::optional<tape_type> memory_;  // gives boundary tensors
  std::deque<unit> units_;           // in flight, oldest first
  std::vector<tape_type> spare_;
  tensor input_;  // taken for a forward that is not computed yet
  bool ends_ = false;
  std::uint64_t next_posted_ = 0;
  std::optional<error> lost_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STREAM_HPP
