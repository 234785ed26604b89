// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ROUTED_DOCUMENTS_HPP
#define CAUSEWAY_EXAMPLES_ROUTED_DOCUMENTS_HPP

// Which documents each peer trains and is judged on, where peers train paths (dipaco). What is sent to a path is a sequence
// of the model's context length, by the first tokens of the document that it begins in, if that began less than a context
// before, else (in the middle of a book, or where nothing tells documents apart) by its own. Features are those of the
// model that the run began with, made anew whenever they are needed, so that nothing but a router is kept. All peers take
// peer 0's router, and each scores its share of the documents: whatever processors they have, they agree on where each
// document goes. Where peers come and go, each does all of that alone, for all paths, and takes the shard of the path that
// it is given: nobody depends on the others' routers, and features that differ in the last bits move a document at most.
// Where peers hold stages they have the same batch, with a part for each path.

#include <causeway/core/result.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/data/document_router.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "session_input.hpp"
#include "shared_in_place.hpp"
#include "trainer_handle.hpp"

namespace app {

/// Of one peer. All that returns a result is called by all peers alike.
class routed_documents {
 public:
  routed_documents(session_input& input, trainer_handle& trainer, causeway::data::validation_windows& held_out);

  /// Of a peer among those that come and go. What `begin` does is its own business then, and its router is kept there.
  routed_documents(session_input& input, trainer_handle& trainer, causeway::data::validation_windows& held_out,
                   causeway::io::any_storage storage, std::string folder);

  /// Sorts all documents: by the router that is kept for `step`, or, where there is none, by clusters of features.
  causeway::result<void> begin(std::uint64_t step);
  /// The same by a router that is trained on which path predicts documents best at present.
  causeway::result<void> again(std::uint64_t step);

  /// From here on this peer trains that path.
  void take(std::uint32_t path) noexcept { path_ = path; }
  [[nodiscard]] std::optional<std::uint32_t> path() const noexcept { return path_; }

  /// From the shard of this peer's path. The peers of a path take `share()` of a batch.
  [[nodiscard]] causeway::result<causeway::data::batcher> batches() const;
  /// Where peers hold stages: a batch of equal parts, one from the shard of each path, in their order. Valid until the
  /// next.
  causeway::result<causeway::batch> batch_of_all(std::uint64_t step);
  struct part {
    std::uint32_t index;
    std::uint32_t of;
  };
  [[nodiscard]] part share() const noexcept { return {alone_ ? 0 : self_ / paths_, replicas_}; }

  /// Losses of this peer's part of what is sent to its path of the held-out sequences, over the tokens behind the prefix:
  /// the path was chosen after those of the prefix were seen. With `comm.route_within` every so many tokens of a sequence
  /// are sent by the tokens in front of them.
  causeway::result<token_losses> evaluate();
  /// The same of all paths, where this peer has their parameters.
  causeway::result<token_losses> evaluate_all();
  /// All that is judged, in batches of one path each, and how many tokens of a batch count.
  using judge = std::function<causeway::result<void>(std::uint32_t path, const causeway::batch& b, double tokens)>;
  causeway::result<void> each_held_out(const judge& f);

 private:
  using rows = std::vector<float>;

  /// Of the sequence that begins with token `first` the targets from `from` to `to`, not included: those that count.
  struct piece {
    std::int64_t first, from, to;
  };

  [[nodiscard]] std::uint32_t path_of(std::uint32_t peer) const { return peer % paths_; }
  [[nodiscard]] std::vector<std::int64_t> spread_sequences(std::size_t most) const;
  [[nodiscard]] std::int64_t document_of(const causeway::data::token_stream& tokens, std::int64_t first) const;
  causeway::result<std::vector<std::vector<std::byte>>> everybodys(std::span<const std::byte> mine, std::size_t limit);
  causeway::result<rows> all_rows(std::span<const float> mine, std::size_t count);
  [[nodiscard]] std::vector<std::int64_t> documents_of(const causeway::data::token_stream& tokens,
                                                       std::span<const std::int64_t> firsts) const;
  [[nodiscard]] piece whole_of(const causeway::data::token_stream& tokens, std::int64_t first) const;
  causeway::result<rows> own_features(const causeway::data::token_stream& tokens, std::span<const std::int64_t> starts);
  causeway::result<rows> scores_of(const causeway::data::token_stream& tokens, std::span<const std::int64_t> starts);

  causeway::result<causeway::data::document_router> clusters();
  causeway::result<void> agree(causeway::data::document_router mine, std::uint64_t step);
  causeway::result<void> sort();
  causeway::result<void> sort_held_out();
  void take_shards(const rows& scores);
  void tell(const std::vector<std::vector<std::uint32_t>>& shards) const;
  causeway::result<rows> losses_of_all(std::span<const std::int64_t> firsts);
  [[nodiscard]] causeway::result<causeway::data::batcher> batches_of(std::uint32_t path, std::int64_t sequences) const;
  causeway::batch batch_of(const causeway::data::token_stream& tokens, std::span<const piece> pieces);
  [[nodiscard]] static double tokens_in(std::span<const piece> pieces);
  causeway::result<token_losses> losses(const causeway::data::token_stream& tokens, std::span<const piece> pieces);
  causeway::result<token_losses> losses_of(std::span<const piece> pieces);

  session_input& in_;
  trainer_handle& trainer_;
  causeway::data::validation_windows& held_out_;
  causeway::io::any_storage storage_;  ///< of the router
  std::string folder_;
  bool alone_;
  std::uint32_t self_;
  std::uint32_t peers_;
  std::uint32_t paths_;
  std::optional<std::uint32_t> path_;
  std::uint32_t replicas_;  ///< peers of this peer's path
  std::int64_t prefix_;
  std::uint64_t talks_ = 0;
  causeway::data::document_router router_;
  std::vector<std::vector<std::uint32_t>> shards_;  ///< of each path: numbers of sequences
  std::vector<std::vector<piece>> held_out_of_;     ///< of each path
  std::vector<causeway::data::batcher> by_path_;    ///< where peers hold stages
  std::vector<std::int32_t> inputs_, targets_;      ///< of a batch
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ROUTED_DOCUMENTS_HPP
