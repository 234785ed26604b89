// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP

// What a peer of a swarm computes, and the tensors that it moves: the tasks of its micro-batches, what goes into its
// gradients and out of them, and boundary tensors from and to the stages beside it. It waits for nobody.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_coordinator.hpp>
#include <causeway/parallel/swarm/swarm_message_handler.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// For the trainer's thread, without the fabric's lock, except where something else is said.
class swarm_work {
 public:
  swarm_work(swarm_state& my, swarm_coordinator& coordinator, swarm_message_handler& handler)
      : my_{my}, coordinator_{coordinator}, handler_{handler}, mailbox_{*my.fabric} {}

  // ---- a turn ---------------------------------------------------------------------------------------------------------

  /// As swarm_coordinator::begin, for a computer that outlives the turn.
  CAUSEWAY_DECL void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_computer& computer,
                           swarm_wire::batch_set counted = {});

  /// The micro-batches that pass this stage.
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::batch_set wanted() const;

  /// See swarm_peer.
  CAUSEWAY_DECL result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                                          std::function<void(std::uint32_t, std::span<float>)> put);

  /// While it is there, the shared parameters of a path are in the place of those that this peer computes with.
  class judged_path {
   public:
    judged_path(swarm_work& work, swarm_computer& computer, std::optional<std::uint32_t> path)
        : work_{work}, computer_{computer}, judges_{path.has_value() && work.my_.paths > 0} {
      if (!judges_) return;
      computer_.replace_parameters([&](std::span<float> to) {
        kept_.assign(to.begin(), to.end());
        work_.put_path_(*path, to);
      });
      work_.my_.locked([this] { work_.my_.judges = true; });
    }
    judged_path(const judged_path&) = delete;
    judged_path& operator=(const judged_path&) = delete;
    ~judged_path() {
      if (!judges_) return;
      work_.my_.locked([this] { work_.my_.judges = false; });
      computer_.replace_parameters([this](std::span<float> to) { std::copy(kept_.begin(), kept_.end(), to.begin()); });
    }

   private:
    swarm_work& work_;
    swarm_computer& computer_;
    std::vector<float> kept_;
    bool judges_;
  };

  // ---- gradients -----------------------------------------------------------------------------------------------------

  /// The peer's gradient is thrown away, or with local steps all that it has of the turn: others have a part of it.
  CAUSEWAY_DECL void drop_everything();

  /// What this peer has of the turn came to values that are not finite, or to no purpose.
  CAUSEWAY_DECL void throw_work_away();
  CAUSEWAY_DECL void leave_with_nothing();
  CAUSEWAY_DECL void forget_gradient();

  /// Where a policy exchanges gradients: all of it was dropped, and the policy's row of it with that.
  CAUSEWAY_DECL error without_gradient();
  CAUSEWAY_DECL [[nodiscard]] static double sum_of_squares(std::span<const float> values);

  /// With local steps: an inner step on what was computed in the closing turn, if anything was. errc::cancelled if so: this
  /// peer's parameters are others than when the exchange was prepared.
  CAUSEWAY_DECL result<void> step_on_what_was_missing();

  /// What cannot be added goes into no sum: nobody could take it out again.
  CAUSEWAY_DECL result<void> check_contribution();

  /// `work`, until `done`, where the gradients are to be of.
  CAUSEWAY_DECL result<void> at_place(const std::function<bool()>& done, const std::function<result<void>()>& work);

  // ---- tensors --------------------------------------------------------------------------------------------------------

  /// Takes in what has come, expects what was announced, sends what is due. What broke is passed over: its sender sends it
  /// again, or another peer does.
  CAUSEWAY_DECL void move_tensors();

  /// With the lock: whether something has happened since tensors were moved, or a task waits.
  CAUSEWAY_DECL [[nodiscard]] bool has_something_to_do() const;

  // ---- computing ------------------------------------------------------------------------------------------------------

  /// A task of its micro-batches. An input that cannot be used is refused, which is no error; errors are the computer's.
  CAUSEWAY_DECL result<void> compute(const swarm_task& task);

  /// Of the turn.
  [[nodiscard]] swarm_computer& computer() const noexcept { return *computer_; }
  /// Of the micro-batches since the last exchange: those that this peer has stepped on, or made its row of.
  [[nodiscard]] swarm_wire::batch_set& progress() noexcept { return progress_; }
  [[nodiscard]] const swarm_wire::batch_set& progress() const noexcept { return progress_; }
  /// See swarm_peer::exchange_means.
  void compute_at(gradient_place place) { place_ = std::move(place); }
  [[nodiscard]] bool has_place() const noexcept { return static_cast<bool>(place_); }

 private:
  CAUSEWAY_DECL [[nodiscard]] swarm_crossing input(std::uint32_t m, bool backward) const;
  CAUSEWAY_DECL [[nodiscard]] swarm_crossing output(std::uint32_t m, bool backward) const;
  // The one before this that the micro-batch passes; 0 for stage 0.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t stage_below(std::uint32_t m) const;
  CAUSEWAY_DECL result<void> compute_back(const swarm_task& task, time_point begin);

  // The first one pays for memory and caches, and says nothing of those to come: 0.
  CAUSEWAY_DECL double time_of(double took);

  // The parameters become those of the path that this peer was given in this round, on which it has done nothing yet.
  CAUSEWAY_DECL void take_module_path();

  // What is computed again for a neighbour's sake adds to nothing.
  CAUSEWAY_DECL result<swarm_output> backward(std::uint32_t m, bool adds);

  // Who sends what cannot be decoded is sent away, and the coordinator told. When it is back it sends what it kept again,
  // unless the coordinator has found another.
  CAUSEWAY_DECL result<void> refuse(const swarm_task& task, const error& why);

  swarm_state& my_;
  swarm_coordinator& coordinator_;
  swarm_message_handler& handler_;
  swarm_computer* computer_ = nullptr;
  gradient_place place_;
  swarm_wire::batch_set progress_;
  std::function<void(std::uint32_t)> path_taken_;  // and what follows: see swarm_peer::shares_paths
  std::function<void(std::uint32_t, std::span<float>)> put_path_;
  tensor_mailbox<swarm_wire::tensor_announcement> mailbox_;
  std::map<std::uint32_t, double> forward_seconds_;
  std::uint64_t serial_ = 0;          // of the last announcement
  std::uint32_t added_ = 0;           // micro-batches in the gradients, since they were cleared
  std::uint64_t seen_forgotten_ = 0;  // how often those were forgotten, when they were last looked at
  bool clobbered_ = false;            // the gradients held what was to be exchanged
  std::uint32_t computes_on_ = swarm_wire::no_module_path;
  bool warm_ = false;  // has computed a micro-batch to the end
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_work.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP
