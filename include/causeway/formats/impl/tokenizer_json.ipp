// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP
#define CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP

#include <causeway/formats/tokenizer_json.hpp>

#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/formats/json.hpp>
#include <causeway/formats/tokenizer_parts.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// The pieces of data::first_piece on the letters of bytes. One letter is one byte, so that lengths are counted in bytes; a
/// long piece ends where no UTF-8 sequence goes on. Blanks leave the last of them to what follows.
inline std::string piece_pattern() {
  const auto range = [](int first, int last) {
    std::string all;
    for (int b = first; b <= last; ++b) all += letters_of(std::string(1, static_cast<char>(b)));
    return all;
  };
  const std::string most = std::to_string(data::longest_piece), after_space = std::to_string(data::longest_piece - 1);
  const std::string letter = "A-Za-z" + range(0x80, 0xFF), blank = range('\t', '\r') + range(' ', ' '),
                    space = range(' ', ' ');
  const auto run = [&](const std::string& kind, const std::string& end) {
    return space + "[" + kind + "]{1," + after_space + "}" + end + "|[" + kind + "]{1," + most + "}" + end;
  };
  return "'(?:[stmd]|re|ve|ll)|" + run(letter, "(?![" + range(0x80, 0xBF) + "])") + "|" + run("0-9", "") + "|" +
         run("^A-Za-z0-9" + range(0x80, 0xFF) + blank, "") + "|[" + blank + "]{1," + most + "}(?=[" + blank + "]|\\z)|[" +
         blank + "]";
}

/// The patterns of data/pre_tokenizer.hpp, letter for letter as other programs write them.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline std::string pre_tokenizer_text() {
  return R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},)"
         R"({"type":"Split","pattern":{"Regex":)" +
         json_quoted(piece_pattern()) + R"(},"behavior":"Isolated","invert":false}]})";
}

inline std::string pre_tokenizer_text(data::piece_rule rule) {
  if (rule == data::piece_rule::causeway) return pre_tokenizer_text();
  if (rule == data::piece_rule::gpt2) {
    return R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  }
  return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" + json_quoted(llama3_pattern) +
         R"(},"behavior":"Isolated","invert":false},)"
         R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
}

inline bool same(const json_value& a, const json_value& b) {
  if (a.type != b.type || a.boolean != b.boolean || a.number != b.number || a.text != b.text) return false;
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const json_value* const other = a.is_object() ? b.find(a.names[i]) : &b.items[i];
    if (other == nullptr || !same(a.items[i], *other)) return false;
  }
  return true;
}

inline bool is_missing(const json_value& from, const char* name) {
  const json_value* const v = from.find(name);
  return v == nullptr || v->is(json_value::kind::null) || (v->is(json_value::kind::text) && v->text.empty());
}
inline std::string text_of(const json_value& from, const char* name) {
  const json_value* const v = from.find(name);
  return v == nullptr ? std::string{} : v->text;
}
/// A flag that may be left out.
inline bool flag_of(const json_value& from, const char* name, bool otherwise) {
  const json_value* const v = from.find(name);
  return v == nullptr || !v->is(json_value::kind::boolean) ? otherwise : v->boolean;
}

class tokenizer_reader {
 public:
  tokenizer_reader(const json_value& root, const std::string& where) : root_{root}, where_{where}, parts_{where} {}

  result<data::bpe_tokenizer> read() {
    CAUSEWAY_ASSIGN(const data::piece_rule rule, read_rule());
    if (!is_missing(root_, "normalizer")) return parts_.refuse("changes text before it is cut (normalizer)");
    const json_value* const model = root_.find("model");
    const bool sound = model != nullptr && model->is_object() && model->find("vocab") != nullptr;
    const std::string type = sound ? text_of(*model, "type") : std::string{};
    if (!sound || (type != "BPE" && !type.empty())) return parts_.refuse("has a model '" + type + "' that is no BPE");
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!is_missing(*model, name)) return parts_.refuse(std::string{"has a "} + name);
    }
    if (flag_of(*model, "byte_fallback", false)) return parts_.refuse("has byte_fallback");
    CAUSEWAY_TRY(read_added());
    CAUSEWAY_TRY(parts_.add_vocabulary(*model->find("vocab")));
    CAUSEWAY_TRY(read_merges(*model));
    parts_.table().pieces = rule;
    parts_.table().whole_pieces = flag_of(*model, "ignore_merges", false);
    return rule == data::piece_rule::causeway ? read_own() : std::move(parts_).finish();
  }

 private:
  /// By the whole of it for our own, by the pattern for others.
  result<data::piece_rule> read_rule() {
    CAUSEWAY_ASSIGN(const json_value own, parse_json(pre_tokenizer_text(), where_));
    const json_value* const cuts = root_.find("pre_tokenizer");
    if (cuts == nullptr || !cuts->is_object()) return parts_.refuse("does not cut text (no pre_tokenizer)");
    if (same(*cuts, own)) return data::piece_rule::causeway;
    const std::string type = text_of(*cuts, "type");
    if (type == "ByteLevel") {
      CAUSEWAY_TRY(check_byte_level(*cuts, true));
      return data::piece_rule::gpt2;
    }
    const json_value* const steps = cuts->find("pretokenizers");
    if (type != "Sequence" || steps == nullptr) return parts_.refuse("cuts text by other rules (" + type + ")");
    for (const json_value& step : steps->items) {
      const std::string kind = text_of(step, "type");
      if (kind != "Split" && kind != "ByteLevel") return parts_.refuse("cuts text by other rules (" + kind + ")");
    }
    const bool known = steps->items.size() == 2 && text_of(steps->items[0], "type") == "Split" &&
                       text_of(steps->items[1], "type") == "ByteLevel";
    if (!known) return parts_.refuse("cuts text by other rules (not one Split and one ByteLevel)");
    CAUSEWAY_TRY(check_byte_level(steps->items[1], false));
    return rule_of_split(steps->items[0]);
  }

  result<void> check_byte_level(const json_value& step, bool cuts) const {
    if (flag_of(step, "add_prefix_space", true)) return parts_.refuse("puts a space before a text (add_prefix_space)");
    if (flag_of(step, "use_regex", true) != cuts) {
      return parts_.refuse(std::string{"cuts text by other rules (ByteLevel with"} + (cuts ? "out" : "") + " use_regex)");
    }
    return {};
  }

  result<data::piece_rule> rule_of_split(const json_value& split) const {
    const json_value* const pattern = split.find("pattern");
    const std::string regex = pattern == nullptr ? std::string{} : text_of(*pattern, "Regex");
    if (text_of(split, "behavior") != "Isolated" || flag_of(split, "invert", false)) {
      return parts_.refuse("cuts text by other rules (a Split that is not Isolated)");
    }
    if (regex == gpt2_pattern) return data::piece_rule::gpt2;
    if (regex == llama3_pattern) return data::piece_rule::llama3;
    return parts_.refuse("cuts text by other rules (the pattern " + regex.substr(0, 300) + ")");
  }

  /// Tokens besides the vocabulary. Usually we do not take them from a text, so they must be those that texts do not have.
  result<void> read_added() {
    const json_value* const added = root_.find("added_tokens");
    if (added == nullptr) return {};
    for (const json_value& token : added->items) {
      const json_value* const id = token.find("id");
      const std::string name = text_of(token, "content");
      if (id == nullptr || !id->is(json_value::kind::integer))
        return parts_.refuse("has the added token '" + name + "' without a number");
      if (!flag_of(token, "special", false)) {
        return parts_.refuse("takes the added token '" + name + "' from a text before it is cut");
      }
      for (const char* const how : {"lstrip", "rstrip", "single_word"}) {
        if (!flag_of(token, how, false)) continue;
        return parts_.refuse("takes the special token '" + name + "' from a text in a way of its own (" + how + ")");
      }
      CAUSEWAY_TRY(parts_.add_special(id->integer, name));
    }
    return {};
  }

  // "left right", or a list of both.
  result<void> read_merges(const json_value& model) {
    const json_value* const from = model.find("merges");
    if (from == nullptr || !from->is(json_value::kind::list)) return parts_.refuse("has no merges");
    for (const json_value& m : from->items) {
      if (m.is(json_value::kind::text)) {
        CAUSEWAY_TRY(parts_.add_merge(m.text));
        continue;
      }
      if (m.items.size() != 2) return parts_.refuse("has a merge of something else than two tokens");
      CAUSEWAY_TRY(parts_.add_merge(m.items[0].text, m.items[1].text));
    }
    return {};
  }

  /// Our own number their tokens by the merges that make them; that they do is compared, whole.
  result<data::bpe_tokenizer> read_own() {
    const data::bpe_table& table = parts_.table();
    auto made = data::bpe_tokenizer::make(table.merges, table.end_of_text.has_value());
    if (!made || made->table() != table)
      return parts_.refuse("numbers its tokens in another order than causeway export does");
    return made;
  }

  const json_value& root_;
  const std::string& where_;
  tokenizer_parts parts_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<std::string> tokenizer_text(const data::bpe_tokenizer& tokenizer) {
  const data::bpe_table& table = tokenizer.table();
  CAUSEWAY_ASSIGN(const token_names names, names_of(tokenizer, "tokenizer.json"));
  std::string vocabulary, merges, added;
  for (const data::special_token& s : table.specials) {
    added += (added.empty() ? "" : ",") + std::string{"{\"id\":"} + std::to_string(s.token) +
             ",\"content\":" + json_quoted(s.name) +
             R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  }
  for (std::size_t i = 0; i < names.tokens.size(); ++i) {
    if (names.tokens[i].empty()) continue;
    vocabulary += (vocabulary.empty() ? "" : ",") + json_quoted(names.tokens[i]) + ":" + std::to_string(i);
  }
  for (const std::string& m : names.merges) merges += (merges.empty() ? "" : ",") + json_quoted(m);
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":null,"pre_tokenizer":)" + detail::pre_tokenizer_text(table.pieces) +
         R"(,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})"
         R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null)"
         R"(,"fuse_unk":false,"byte_fallback":false,"ignore_merges":)" +
         std::string{table.whole_pieces ? "true" : "false"} + ",\"vocab\":{" + vocabulary + "},\"merges\":[" + merges +
         "]}}\n";
}

CAUSEWAY_DECL std::string tokenizer_config_text(const data::bpe_tokenizer& tokenizer, std::int64_t context) {
  std::string text = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false,\n";
  for (const data::special_token& s : tokenizer.table().specials) {
    if (s.token == tokenizer.end_of_text()) text += "  \"eos_token\": " + json_quoted(s.name) + ",\n";
  }
  return text + "  \"model_max_length\": " + std::to_string(context) + "\n}\n";
}

CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer(std::string_view text, const std::string& where) {
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, where));
  if (!root.is_object()) return fail(errc::corrupt, where, "is not an object; get the file again");
  return detail::tokenizer_reader{root, where}.read();
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP
