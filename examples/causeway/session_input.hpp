// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SESSION_INPUT_HPP
#define CAUSEWAY_EXAMPLES_SESSION_INPUT_HPP

// What every session is given and ends with, and what sessions of fixed and of changing peers do alike.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "metrics.hpp"
#include "policies.hpp"
#include "settings.hpp"

namespace app {

/// What the peers of a run have in common while they train.
enum class pace {
  together,     ///< steps and rounds: whoever has ended a round knows that the others can end it, too
  overlapping,  ///< steps; but when they are stopped, one may be a round or more ahead of another
  rounds,       ///< rounds; each takes as many steps as it can
  nothing,      ///< until they finish
  in_step       ///< every step: a pipeline's peers make it together
};

/// What a session is given.
struct session_input {
  settings s;
  corpus data;
  std::string folder;  ///< of the run
  std::uint64_t run_id = 0;
  std::function<bool()> stopping;                                     ///< whether a signal asked us to stop
  std::function<void(std::uint64_t)> reached = [](std::uint64_t) {};  ///< is told of each step that was made
  /// Is given what ends this peer's waits for servers, from any thread: a moment after a stop was requested.
  std::function<void(std::function<void()>)> ended_by = [](const std::function<void()>&) {};
  std::function<causeway::traffic()> with_servers = [] { return causeway::traffic{}; };  ///< where they hold a part
  std::shared_ptr<link_meter> links = std::make_shared<link_meter>();  ///< counts what this peer sends and waits for
};

/// What a session ends with.
struct session_summary {
  bool interrupted = false;
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  double validation = 0;  ///< of the final parameters, nats per token
  std::uint64_t bytes_sent = 0;
  double every_step_bytes = 0;  ///< what f32 averaging in every step would have sent
  double wall_seconds = 0;
  double blocked_seconds = 0;  ///< of these, in exchanges: waiting for other peers and for lines
  std::uint64_t state_hash = 0;
};

/// The sequences that a peer trains on. `at_once`: all peers' of a step.
inline causeway::result<causeway::data::batcher> training_batches(const session_input& in, std::int64_t at_once) {
  // Codecs that remember samples need the same ones in every epoch.
  const bool shift = !in.s.parallel.codec.starts_with("delta");
  return causeway::data::batcher::make(in.data.tokens.train, {in.s.model.context, in.s.run.seed, shift}, at_once);
}

/// Where the parameters that peers share are kept, for those who generate; a stage has its own.
inline std::string shared_folder(const session_input& in, std::uint32_t peer) {
  const std::string folder = in.folder + "/shared";
  return has_stages(in.s) ? folder + "-" + std::to_string(peer) : folder;
}

/// The windows that every validation looks at.
inline causeway::result<causeway::data::validation_windows> held_out_windows(const session_input& in) {
  const auto count = std::max<std::int64_t>(1, in.s.train.evaluate_tokens / in.s.model.context);
  return causeway::data::validation_windows::make(in.data.tokens.validation, in.s.model.context, count);
}

/// Sees that the tokens of these samples are here, where they come from other peers; and has those of the samples fetched
/// that probably come next.
inline causeway::result<void> fetch_samples(const session_input& in, const causeway::data::batcher& batches,
                                            std::span<const std::uint64_t> numbers) {
  if (!in.data.fetcher) return {};
  const auto firsts = [&](std::uint64_t ahead) {
    std::vector<std::int64_t> all;
    for (const std::uint64_t n : numbers) all.push_back(batches.order().sample_at(n + ahead).first);
    return all;
  };
  CAUSEWAY_TRY(in.data.need_training(firsts(0), in.s.model.context + 1));
  in.data.want_training(firsts(numbers.size()), in.s.model.context + 1);
  return {};
}

/// The same of all windows that validations look at.
inline causeway::result<void> fetch_held_out(const session_input& in, const causeway::data::validation_windows& windows) {
  if (!in.data.fetcher) return {};
  std::vector<std::int64_t> firsts;
  for (std::int64_t i = 0; i < windows.size(); ++i) firsts.push_back(windows.first_token(i));
  return in.data.need_validation(firsts, in.s.model.context + 1);
}

/// The first multiple of `every` after `step`; never, if that is 0.
constexpr std::uint64_t next_after(std::uint64_t step, std::uint64_t every) {
  return every == 0 ? std::numeric_limits<std::uint64_t>::max() : (step / every + 1) * every;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SESSION_INPUT_HPP
