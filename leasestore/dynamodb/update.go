package dynamodb

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update gathers the expressions of one UpdateItem. No attribute is named that it does not change or depend on, so that all others stay as they are.
type update struct {
	set        map[string]string // attribute -> placeholder of its value
	remove     map[string]bool
	add        map[string]string
	conditions []string
	names      map[string]string
	values     map[string]types.AttributeValue
}

func newUpdate() *update {
	return &update{
		set: map[string]string{}, remove: map[string]bool{}, add: map[string]string{},
		names: map[string]string{}, values: map[string]types.AttributeValue{},
	}
}

func (u *update) name(attribute string) string {
	u.names["#"+attribute] = attribute
	return "#" + attribute
}

func (u *update) value(v types.AttributeValue) string {
	placeholder := ":v" + strconv.Itoa(len(u.values))
	u.values[placeholder] = v
	return placeholder
}

func (u *update) put(attribute string, v types.AttributeValue) {
	u.set[u.name(attribute)] = u.value(v)
}

// putText puts a string, or removes the attribute for an empty one.
func (u *update) putText(attribute, s string) {
	if s == "" {
		u.drop(attribute)
		return
	}
	u.put(attribute, text(s))
}

func (u *update) drop(attributes ...string) {
	for _, attribute := range attributes {
		u.remove[u.name(attribute)] = true
	}
}

func (u *update) increase(attribute string) { u.add[u.name(attribute)] = u.value(number(1)) }

func (u *update) require(condition string) { u.conditions = append(u.conditions, condition) }

// requireText requires that the attribute is s, where absent and empty are the same.
func (u *update) requireText(attribute, s string) {
	if s == "" {
		u.require(either(u.absent(attribute), "size("+u.name(attribute)+") = "+u.value(number(0))))
		return
	}
	u.require(u.equals(attribute, text(s)))
}

func (u *update) equals(attribute string, v types.AttributeValue) string {
	return u.name(attribute) + " = " + u.value(v)
}

func (u *update) absent(attribute string) string {
	return "attribute_not_exists(" + u.name(attribute) + ")"
}

// either is a condition of which one must hold.
func either(conditions ...string) string { return "(" + strings.Join(conditions, " OR ") + ")" }

func (u *update) condition() *string {
	if len(u.conditions) == 0 {
		return nil
	}
	return aws.String(strings.Join(u.conditions, " AND "))
}

func (u *update) expression() *string {
	var clauses []string
	for _, clause := range []struct {
		word, between string
		values        map[string]string
	}{{"SET ", " = ", u.set}, {"ADD ", " ", u.add}} {
		var terms []string
		for _, name := range slices.Sorted(maps.Keys(clause.values)) {
			terms = append(terms, name+clause.between+clause.values[name])
		}
		if terms != nil {
			clauses = append(clauses, clause.word+strings.Join(terms, ", "))
		}
	}
	if len(u.remove) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(slices.Sorted(maps.Keys(u.remove)), ", "))
	}
	return aws.String(strings.Join(clauses, " "))
}

func (u *update) input(table, key string) *sdk.UpdateItemInput {
	in := &sdk.UpdateItemInput{
		TableName:                aws.String(table),
		Key:                      map[string]types.AttributeValue{attrKey: text(key)},
		UpdateExpression:         u.expression(),
		ConditionExpression:      u.condition(),
		ExpressionAttributeNames: u.names,
		ReturnValues:             types.ReturnValueAllNew,
		// What the row is instead says why the write was refused, at no cost.
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if len(u.values) > 0 {
		in.ExpressionAttributeValues = u.values
	}
	return in
}

func (u *update) deletion(table, key string) *sdk.DeleteItemInput {
	return &sdk.DeleteItemInput{
		TableName:                           aws.String(table),
		Key:                                 map[string]types.AttributeValue{attrKey: text(key)},
		ConditionExpression:                 u.condition(),
		ExpressionAttributeNames:            u.names,
		ExpressionAttributeValues:           u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}
