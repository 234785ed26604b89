// SPDX-License-Identifier: Apache-2.0
#include "routed_documents.hpp"

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/data/k_means.hpp>
#include <causeway/io/archive.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "path_layout.hpp"
#include "path_router.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using causeway::result;
namespace data = causeway::data;

constexpr std::size_t clustered = 4096;  // sequences that clusters are made of
constexpr std::size_t judged = 1024;     // sequences that each path predicts before a router is trained
constexpr std::uint32_t talk_channel = causeway::collective::channels::metrics + 8;

}  // namespace

routed_documents::routed_documents(session_input& input, trainer_handle& trainer, data::validation_windows& held_out)
    : in_{input},
      trainer_{trainer},
      held_out_{held_out},
      storage_{causeway::io::posix_storage{}},
      folder_{input.folder + "/peer-" + std::to_string(trainer.ctx().self())},
      alone_{false},
      self_{trainer.ctx().self()},
      peers_{trainer.ctx().peers()},
      paths_{path_count(input.s)},
      path_{path_of(self_)},
      replicas_{peers_of_path(input.s, *path_)},
      prefix_{route_prefix(input.s)} {}

routed_documents::routed_documents(session_input& input, trainer_handle& trainer, data::validation_windows& held_out,
                                   causeway::io::any_storage storage, std::string folder)
    : in_{input},
      trainer_{trainer},
      held_out_{held_out},
      storage_{std::move(storage)},
      folder_{std::move(folder)},
      alone_{true},
      self_{0},
      peers_{1},
      paths_{path_count(input.s)},
      replicas_{1},
      prefix_{route_prefix(input.s)} {}

// ---- what all peers do together -------------------------------------------------------------------------------------

result<std::vector<std::vector<std::byte>>> routed_documents::everybodys(std::span<const std::byte> mine,
                                                                         std::size_t limit) {
  std::vector<std::vector<std::byte>> all(1);
  all[0].assign(mine.begin(), mine.end());
  if (peers_ == 1) return all;
  const causeway::net::message_id id{.channel = talk_channel, .step = talks_++};
  CAUSEWAY_TRY(causeway::collective::all_gather(trainer_.ctx().world(), id, mine, limit, all));
  return all;
}

// Together they are `count` numbers.
result<routed_documents::rows> routed_documents::all_rows(std::span<const float> mine, std::size_t count) {
  CAUSEWAY_ASSIGN(const auto all, everybodys(std::as_bytes(mine), count * sizeof(float)));
  rows joined;
  for (const auto& bytes : all) {
    const std::size_t before = joined.size();
    joined.resize(before + bytes.size() / sizeof(float));
    std::memcpy(joined.data() + before, bytes.data(), (joined.size() - before) * sizeof(float));
  }
  if (joined.size() == count) return joined;
  return fail(errc::diverged, in_.folder,
              "the peers sent " + std::to_string(joined.size()) + " numbers about their documents, not " +
                  std::to_string(count) + "; give all peers the same text and settings");
}

// Sequences all over the text.
std::vector<std::int64_t> routed_documents::spread_sequences(std::size_t most) const {
  const std::int64_t all = (in_.data.tokens.train.size() - 1) / in_.s.model.context;
  const std::int64_t count = std::min<std::int64_t>(all, static_cast<std::int64_t>(most));
  std::vector<std::int64_t> firsts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) firsts[static_cast<std::size_t>(i)] = i * all / count * in_.s.model.context;
  return firsts;
}

// Where the document begins by which this sequence is sent to a path.
std::int64_t routed_documents::document_of(const data::token_stream& tokens, std::int64_t first) const {
  const auto end = in_.data.codec.end_of_text();
  if (!end) return first;
  std::vector<std::int32_t> before(static_cast<std::size_t>(std::min(first, in_.s.model.context - 1)));
  const std::int64_t begin = first - std::ssize(before);
  tokens.read(begin, before);
  const auto last = std::find(before.rbegin(), before.rend(), *end);
  return last != before.rend() ? first - (last - before.rbegin()) : begin == 0 ? 0 : first;
}

std::vector<std::int64_t> routed_documents::documents_of(const data::token_stream& tokens,
                                                         std::span<const std::int64_t> firsts) const {
  std::vector<std::int64_t> starts;
  for (const std::int64_t first : firsts) starts.push_back(document_of(tokens, first));
  return starts;
}

// All of a sequence but what was seen before it was sent.
routed_documents::piece routed_documents::whole_of(const data::token_stream& tokens, std::int64_t first) const {
  const std::int64_t seen = std::max<std::int64_t>(0, document_of(tokens, first) + prefix_ - 1 - first);
  return {first, seen, in_.s.model.context};
}

// Of this peer's share.
result<routed_documents::rows> routed_documents::own_features(const data::token_stream& tokens,
                                                              std::span<const std::int64_t> starts) {
  const auto mine = causeway::share_of(std::ssize(starts), self_, peers_);
  const auto own = starts.subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.end - mine.begin));
  return features_of(in_.s, in_.data.codec.vocabulary(), tokens, own, prefix_);
}

// ---- routers --------------------------------------------------------------------------------------------------------

result<data::document_router> routed_documents::clusters() {
  const auto width = static_cast<std::size_t>(in_.s.model.width);
  const auto firsts = spread_sequences(clustered);
  const auto starts = documents_of(in_.data.tokens.train, firsts);
  CAUSEWAY_ASSIGN(const rows own, own_features(in_.data.tokens.train, starts));
  CAUSEWAY_ASSIGN(const rows features, all_rows(own, firsts.size() * width));
  CAUSEWAY_ASSIGN(const auto centres,
                  data::product_k_means({features, width}, path_versions(in_.s), {.seed = in_.s.run.seed}));
  return data::document_router::nearest({centres, width});
}

// All take peer 0's.
result<void> routed_documents::agree(data::document_router mine, std::uint64_t step) {
  CAUSEWAY_ASSIGN(const auto bytes, causeway::io::archiver{}.to_bytes(mine));
  const bool first = self_ == 0;
  CAUSEWAY_ASSIGN(const auto all, everybodys(first ? std::span<const std::byte>{bytes} : std::span<const std::byte>{},
                                             router_bytes(in_.s)));
  CAUSEWAY_TRY(causeway::io::archiver{}.from_bytes(std::span<const std::byte>{all[0]}, router_));
  if (!fits(router_, in_.s)) {
    return fail(errc::wrong_model, in_.folder,
                "has a router for another model or other paths; start over with --run.fresh");
  }
  return keep_router(storage_, folder_, step, all[0]);
}

result<void> routed_documents::begin(std::uint64_t step) {
  if (in_.data.fetcher) {
    const auto all = spread_sequences(std::numeric_limits<std::int64_t>::max());
    CAUSEWAY_TRY(in_.data.need_training(all, in_.s.model.context + 1));
  }
  const auto kept = alone_ ? fail(errc::not_found, folder_, "is not asked") : kept_router(in_.folder + "/peer-0", step);
  const std::byte here{kept && self_ == 0};
  CAUSEWAY_ASSIGN(const auto all, everybodys({&here, 1}, 1));
  if (all[0] == std::vector<std::byte>{std::byte{1}}) {
    CAUSEWAY_TRY(agree(kept ? *kept : data::document_router{}, step));
  } else {
    CAUSEWAY_ASSIGN(auto router, clusters());
    CAUSEWAY_TRY(agree(std::move(router), step));
  }
  return sort();
}

result<void> routed_documents::again(std::uint64_t step) {
  const auto firsts = spread_sequences(judged);
  CAUSEWAY_ASSIGN(const rows losses, losses_of_all(firsts));  // [paths, sequences]
  const auto starts = documents_of(in_.data.tokens.train, firsts);
  CAUSEWAY_ASSIGN(const rows own, own_features(in_.data.tokens.train, starts));
  const auto width = static_cast<std::size_t>(in_.s.model.width);
  CAUSEWAY_ASSIGN(const rows features, all_rows(own, firsts.size() * width));
  std::vector<std::uint32_t> best(firsts.size(), 0);
  for (std::uint32_t path = 1; path < paths_; ++path) {
    for (std::size_t d = 0; d < best.size(); ++d) {
      if (losses[path * best.size() + d] < losses[best[d] * best.size() + d]) best[d] = path;
    }
  }
  CAUSEWAY_ASSIGN(auto router, data::document_router::trained({features, width}, best, paths_));
  CAUSEWAY_TRY(agree(std::move(router), step));
  return sort();
}

// The loss of every path on each of these sequences, which the peers of a path divide.
result<routed_documents::rows> routed_documents::losses_of_all(std::span<const std::int64_t> firsts) {
  const auto count = static_cast<std::int64_t>(firsts.size());
  const auto mine = causeway::share_of(count, share().index, share().of);
  rows own;
  for (std::int64_t d = mine.begin; d < mine.end; ++d) {
    const piece whole = whole_of(in_.data.tokens.train, firsts[static_cast<std::size_t>(d)]);
    CAUSEWAY_ASSIGN(const token_losses one, losses(in_.data.tokens.train, {&whole, 1}));
    own.push_back(static_cast<float>(one.sum / one.tokens));
  }
  CAUSEWAY_ASSIGN(const rows all, all_rows(own, paths_ * firsts.size()));  // replicas divide the texts
  rows by_path(paths_ * firsts.size());
  std::size_t at = 0;
  for (std::uint32_t peer = 0; peer < peers_; ++peer) {
    const auto theirs = causeway::share_of(count, peer / paths_, peers_of_path(in_.s, path_of(peer)));
    for (std::int64_t d = theirs.begin; d < theirs.end; ++d, ++at) {
      by_path[path_of(peer) * firsts.size() + static_cast<std::size_t>(d)] = all[at];
    }
  }
  return by_path;
}

// ---- shards ---------------------------------------------------------------------------------------------------------

result<routed_documents::rows> routed_documents::scores_of(const data::token_stream& tokens,
                                                           std::span<const std::int64_t> starts) {
  CAUSEWAY_ASSIGN(const rows features, own_features(tokens, starts));
  const data::feature_rows own{features, router_.width()};
  rows scores(own.size() * paths_);
  for (std::size_t i = 0; i < own.size(); ++i) router_.scores(own[i], std::span{scores}.subspan(i * paths_, paths_));
  return all_rows(scores, starts.size() * paths_);
}

result<void> routed_documents::sort() {
  const auto& tokens = in_.data.tokens.train;
  const auto starts = documents_of(tokens, spread_sequences(std::numeric_limits<std::int64_t>::max()));
  CAUSEWAY_ASSIGN(const rows scores, scores_of(tokens, starts));
  take_shards(scores);
  return sort_held_out();
}

// The first piece of a sequence is sent by its document's first tokens, each later one by the last before it.
result<void> routed_documents::sort_held_out() {
  const auto& tokens = in_.data.tokens.validation;
  std::vector<piece> pieces;
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < held_out_.size(); ++i) {
    const piece whole = whole_of(tokens, held_out_.first_token(i));
    const auto within = static_cast<std::int64_t>(in_.s.comm.route_within);
    const std::int64_t each = within > 0 ? within : whole.to - whole.from;
    for (std::int64_t from = whole.from; from < whole.to; from += each) {
      pieces.push_back({whole.first, from, std::min(from + each, whole.to)});
      starts.push_back(from == whole.from ? document_of(tokens, whole.first) : whole.first + from + 1 - prefix_);
    }
  }
  CAUSEWAY_ASSIGN(const rows sent, scores_of(tokens, starts));
  const auto shards = data::shards_of({sent, paths_}, {.fewest = 0});
  held_out_of_.assign(paths_, {});
  for (std::uint32_t path = 0; path < paths_; ++path) {
    for (std::size_t i = share().index; i < shards[path].size(); i += replicas_)
      held_out_of_[path].push_back(pieces[shards[path][i]]);
  }
  return {};
}

void routed_documents::take_shards(const rows& scores) {
  const auto fewest = static_cast<std::uint32_t>(in_.s.train.batch);
  shards_ = data::shards_of({scores, paths_}, {in_.s.comm.route_top, fewest});
  std::vector<double> weights;  // of peers, or alone of paths
  for (std::uint32_t one = 0; one < (alone_ ? paths_ : peers_); ++one) {
    const std::uint32_t path = path_of(one);
    weights.push_back(static_cast<double>(shards_[path].size()) / (alone_ ? 1 : peers_of_path(in_.s, path)));
  }
  trainer_.weigh(weights);
  if (!alone_ && self_ == 0 && !in_.s.quiet) tell(shards_);
}

void routed_documents::tell(const std::vector<std::vector<std::uint32_t>>& shards) const {
  std::string sizes;
  for (const auto& shard : shards) sizes += (sizes.empty() ? "" : ", ") + std::to_string(shard.size());
  std::printf("sequences of %lld tokens, sorted to %u paths by their first %lld: %s\n",
              static_cast<long long>(in_.s.model.context), paths_, static_cast<long long>(prefix_), sizes.c_str());
}

result<data::batcher> routed_documents::batches() const {
  return batches_of(path_.value_or(0), in_.s.train.batch * replicas_);
}

result<data::batcher> routed_documents::batches_of(std::uint32_t path, std::int64_t sequences) const {
  const data::sampler_options options{in_.s.model.context, in_.s.run.seed, false, shards_[path]};
  return data::batcher::make(in_.data.tokens.train, options, sequences);
}

result<causeway::batch> routed_documents::batch_of_all(std::uint64_t step) {
  const std::int64_t each = in_.s.train.batch / paths_;
  inputs_.clear();
  targets_.clear();
  for (std::uint32_t path = 0; path < paths_; ++path) {
    if (by_path_.size() == path) {
      CAUSEWAY_ASSIGN(auto batches, batches_of(path, each));
      by_path_.push_back(std::move(batches));
    }
    const causeway::batch own = by_path_[path].at(step * static_cast<std::uint64_t>(each), each);
    inputs_.insert(inputs_.end(), own.inputs.begin(), own.inputs.end());
    targets_.insert(targets_.end(), own.targets.begin(), own.targets.end());
  }
  return causeway::batch{inputs_, targets_, each * paths_};
}

// ---- losses ---------------------------------------------------------------------------------------------------------

causeway::batch routed_documents::batch_of(const data::token_stream& tokens, std::span<const piece> pieces) {
  std::vector<std::int32_t> window(static_cast<std::size_t>(in_.s.model.context + 1));
  inputs_.clear();
  targets_.clear();
  for (const piece& p : pieces) {
    tokens.read(p.first, window);
    inputs_.insert(inputs_.end(), window.begin(), window.end() - 1);
    std::fill_n(window.begin() + 1, p.from, -1);  // these do not count
    std::fill(window.begin() + 1 + p.to, window.end(), -1);
    targets_.insert(targets_.end(), window.begin() + 1, window.end());
  }
  return {inputs_, targets_, std::ssize(pieces)};
}

double routed_documents::tokens_in(std::span<const piece> pieces) {
  std::int64_t all = 0;
  for (const piece& p : pieces) all += p.to - p.from;
  return static_cast<double>(all);
}

result<token_losses> routed_documents::losses(const data::token_stream& tokens, std::span<const piece> pieces) {
  const causeway::batch b = batch_of(tokens, pieces);
  CAUSEWAY_ASSIGN(const double mean, trainer_.evaluate(b));
  return token_losses{mean * static_cast<double>(b.tokens()), tokens_in(pieces)};
}

result<void> routed_documents::each_held_out(const judge& f) {
  const auto at_once = static_cast<std::size_t>(in_.s.train.batch);
  for (std::uint32_t path = 0; path < paths_; ++path) {
    const std::span<const piece> all{held_out_of_[path]};
    for (std::size_t at = 0; at < all.size(); at += at_once) {
      const auto some = all.subspan(at, std::min(at_once, all.size() - at));
      CAUSEWAY_TRY(f(path, batch_of(in_.data.tokens.validation, some), tokens_in(some)));
    }
  }
  return {};
}

result<token_losses> routed_documents::evaluate() { return losses_of(held_out_of_[path_.value_or(0)]); }

result<token_losses> routed_documents::evaluate_all() {
  const auto live = trainer_.ctx().parameters();
  const rows kept{live.begin(), live.end()};
  token_losses all;
  result<token_losses> found = all;
  for (std::uint32_t path = 0; path < paths_ && found; ++path) {
    trainer_.parameters_of(path, live);
    trainer_.ctx().parameters_changed();
    found = losses_of(held_out_of_[path]);
    if (found) all.sum += found->sum, all.tokens += found->tokens;
  }
  std::copy(kept.begin(), kept.end(), live.begin());
  trainer_.ctx().parameters_changed();
  if (!found) return found.error();
  return all;
}

result<token_losses> routed_documents::losses_of(std::span<const piece> pieces) {
  token_losses all;
  const auto at_once = static_cast<std::size_t>(in_.s.train.batch);
  for (std::size_t at = 0; at < pieces.size(); at += at_once) {
    CAUSEWAY_ASSIGN(const token_losses some,
                    losses(in_.data.tokens.validation, pieces.subspan(at, std::min(at_once, pieces.size() - at))));
    all.sum += some.sum;
    all.tokens += some.tokens;
  }
  return all;
}

}  // namespace app
